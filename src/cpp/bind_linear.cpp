// Linear models, passes over the rows: moments and outputs.
#include "bindings.hpp"

namespace softboost {

namespace {

template <typename T>
void register_linear(nb::module_& m) {
  m.def(
      "moments",
      [](In2<T> x, In2<T> y, std::optional<In1<T>> weight, bool centred, int n_threads) {
        const size_t d = x.shape(0), o = y.shape(0);
        const int64_t n = size(x.shape(1));
        std::vector<double> mean_x(d), mean_y(o), gram(d * d), cross(o * d);
        run_interruptibly([&](Interrupt* interrupt) {
          if (centred) {
            kernels<T>().weighted_means(x.data(), pointer(weight), size(d), n, n_threads, mean_x.data());
            kernels<T>().weighted_means(y.data(), pointer(weight), size(o), n, n_threads, mean_y.data());
          }
          kernels<T>().moments(x.data(), y.data(), pointer(weight), size(d), size(o), n, mean_x.data(), mean_y.data(),
                               n_threads, interrupt, gram.data(), cross.data());
        });
        return nb::make_tuple(array(std::move(mean_x), {d}), array(std::move(mean_y), {o}),
                              array(std::move(gram), {d, d}), array(std::move(cross), {o, d}));
      },
      "x"_a.noconvert(), "y"_a.noconvert(), "weight"_a.noconvert().none(), "centred"_a, "n_threads"_a);
  m.def(
      "linear_outputs",
      [](In2<double> coefficients, In1<double> intercepts, In2<T> x, int n_threads) {
        const size_t p = coefficients.shape(0), n = x.shape(1);
        std::vector<double> out(p * n);
        {
          nb::gil_scoped_release release;
          kernels<T>().linear_outputs(coefficients.data(), intercepts.data(), size(p), x.data(), size(x.shape(0)),
                                      size(n), n_threads, out.data());
        }
        return array(std::move(out), {p, n});
      },
      "coefficients"_a.noconvert(), "intercepts"_a.noconvert(), "x"_a.noconvert(), "n_threads"_a);
}

}  // namespace

void bind_linear(nb::module_& m) {
  register_linear<float>(m);
  register_linear<double>(m);
}

}  // namespace softboost
