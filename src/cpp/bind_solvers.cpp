// Linear models from moments: regularisation paths, a step of recursive least squares, a linear solve; and constants
// that minimise a loss.
#include "bindings.hpp"

namespace softboost {

void bind_solvers(nb::module_& m) {
  m.def(
      "lasso_path",
      [](In2<double> gram, In1<double> cross, In1<double> penalties, double tolerance, int64_t max_sweeps) {
        std::vector<double> out(penalties.size() * cross.size());
        {
          nb::gil_scoped_release release;
          current_table->lasso_path(gram.data(), cross.data(), size(cross.size()), penalties.data(),
                                    size(penalties.size()), tolerance, max_sweeps, out.data());
        }
        return array(std::move(out), {penalties.size(), cross.size()});
      },
      "gram"_a.noconvert(), "cross"_a.noconvert(), "penalties"_a.noconvert(), "tolerance"_a, "max_sweeps"_a);
  m.def(
      "ridge_path",
      [](In2<double> gram, In2<double> cross, In1<double> penalties) {
        const size_t d = gram.shape(0), o = cross.shape(0), l = penalties.size();
        std::vector<double> out(l * o * d), log_determinants(l);
        run_interruptibly([&](Interrupt* interrupt) {
          current_table->ridge_path(gram.data(), cross.data(), size(d), size(o), penalties.data(), size(l), interrupt,
                                    out.data(), log_determinants.data());
        });
        return nb::make_tuple(array(std::move(out), {l, o, d}), array(std::move(log_determinants), {l}));
      },
      "gram"_a.noconvert(), "cross"_a.noconvert(), "penalties"_a.noconvert());
  m.def(
      "relaxed_path",
      [](In2<double> gram, In1<double> cross, In2<double> path, double limit, double ridge) {
        std::vector<double> out(path.size(), 0.0);
        {
          nb::gil_scoped_release release;
          current_table->relaxed_path(gram.data(), cross.data(), size(cross.size()), path.data(), size(path.shape(0)),
                                      limit, ridge, out.data());
        }
        return array(std::move(out), {path.shape(0), path.shape(1)});
      },
      "gram"_a.noconvert(), "cross"_a.noconvert(), "path"_a.noconvert(), "limit"_a, "ridge"_a);
  m.def(
      "rls_update",
      [](Mutable<double> covariance, In1<double> basis, double gap) {
        std::vector<double> gain(basis.size());
        double variance;
        {
          nb::gil_scoped_release release;
          variance = current_table->rls_update(covariance.data(), basis.data(), size(basis.size()), gap, gain.data());
        }
        return nb::make_tuple(array(std::move(gain), {basis.size()}), variance);
      },
      "covariance"_a.noconvert(), "basis"_a.noconvert(), "gap"_a);
  m.def(
      "loss_intercepts",
      [](const LossSettings& loss, In2<double> y, std::optional<In1<double>> weight) {
        std::vector<double> out(y.shape(0));
        {
          nb::gil_scoped_release release;
          for (size_t k = 0; k < out.size(); ++k)
            out[k] = current_table->loss_intercept(loss, y.data() + k * y.shape(1), pointer(weight), size(y.shape(1)));
        }
        return array(std::move(out), {y.shape(0)});
      },
      "loss"_a, "y"_a.noconvert(), "weight"_a.noconvert().none());
  m.def(
      "solve_with_inverse",
      [](In2<double> gram, In1<double> cross) {
        const size_t n = cross.size();
        std::vector<double> coefficients(n), covariance(n * n);
        run_interruptibly([&](Interrupt* interrupt) {
          current_table->solve_with_inverse(gram.data(), cross.data(), size(n), interrupt, coefficients.data(),
                                            covariance.data());
        });
        return nb::make_tuple(array(std::move(coefficients), {n}), array(std::move(covariance), {n, n}));
      },
      "gram"_a.noconvert(), "cross"_a.noconvert());
}

}  // namespace softboost
