"""Online learning from a stream, one row at a time: :class:`OnlineSoftBoostRegressor`."""

from ._regressor import OnlineSoftBoostRegressor

__all__ = ["OnlineSoftBoostRegressor"]
