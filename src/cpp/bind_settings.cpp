// Settings of the kernels and the maximum depth of a tree.
#include "bindings.hpp"

namespace softboost {

void bind_settings(nb::module_& m) {
  m.attr("MAX_DEPTH") = kMaxDepth;
  nb::class_<GreedySettings>(m, "GreedySettings")
      .def(nb::init<>())
      .def_rw("depth", &GreedySettings::depth)
      .def_rw("shallower", &GreedySettings::shallower)
      .def_rw("sharpness", &GreedySettings::sharpness)
      .def_rw("ridge", &GreedySettings::ridge)
      .def_rw("linear_leaves", &GreedySettings::linear_leaves)
      .def_rw("n_extra_columns", &GreedySettings::n_extra_columns)
      .def_rw("detrended_candidate", &GreedySettings::detrended_candidate)
      .def_rw("min_leaf_weight", &GreedySettings::min_leaf_weight)
      .def_rw("n_selection_rows", &GreedySettings::n_selection_rows);
  nb::enum_<LossKind>(m, "LossKind")
      .value("squared", LossKind::squared)
      .value("absolute", LossKind::absolute)
      .value("quantile", LossKind::quantile)
      .value("huber", LossKind::huber)
      .value("log_cosh", LossKind::log_cosh)
      .value("poisson", LossKind::poisson)
      .value("gamma", LossKind::gamma)
      .value("tweedie", LossKind::tweedie);
  nb::class_<LossSettings>(m, "LossSettings")
      .def(nb::init<>())
      .def_rw("kind", &LossSettings::kind)
      .def_rw("parameter", &LossSettings::parameter)
      .def_rw("refit_leaves", &LossSettings::refit_leaves);
  nb::enum_<TransformKind>(m, "TransformKind")
      .value("identity", TransformKind::identity)
      .value("diagonal", TransformKind::diagonal)
      .value("linear", TransformKind::linear);
  nb::class_<JointSettings>(m, "JointSettings")
      .def(nb::init<>())
      .def_rw("transform", &JointSettings::transform)
      .def_rw("solve_leaves", &JointSettings::solve_leaves)
      .def_rw("learn_gates", &JointSettings::learn_gates)
      .def_rw("learn_transform", &JointSettings::learn_transform)
      .def_rw("n_steps", &JointSettings::n_steps)
      .def_rw("gate_learning_rate", &JointSettings::gate_learning_rate)
      .def_rw("leaf_learning_rate", &JointSettings::leaf_learning_rate)
      .def_rw("transform_learning_rate", &JointSettings::transform_learning_rate)
      .def_rw("ridge", &JointSettings::ridge)
      .def_rw("weight_decay", &JointSettings::weight_decay)
      .def_rw("group_lasso", &JointSettings::group_lasso)
      .def_rw("cosine_decay", &JointSettings::cosine_decay)
      .def_rw("greedy_gates", &JointSettings::greedy_gates)
      .def_rw("min_leaf_weight", &JointSettings::min_leaf_weight);
}

}  // namespace softboost
