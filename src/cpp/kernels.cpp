// Compiled once per instruction set with -DSB_ISA=<name>; all definitions are in namespace softboost::<name>.
#include "kernels.hpp"

#include <algorithm>

#include "greedy.hpp"
#include "joint.hpp"
#include "linear.hpp"
#include "predict.hpp"
#include "recursive.hpp"
#include "smoothing.hpp"
#include "start_gates.hpp"

#define SB_QUOTE_(x) #x
#define SB_QUOTE(x) SB_QUOTE_(x)

namespace softboost {
namespace SB_ISA {
namespace {

template <typename T>
void call_fit_greedy(const T* columns, const BinnedColumns<T>& bins, const T* target, const T* weight,
                     int64_t n_outputs, const GreedySettings& settings, int n_threads, Interrupt* interrupt,
                     TreeArrays<T>& out) {
  out = GreedyFitter<T>(columns, bins, weight, n_outputs, settings, n_threads, interrupt).fit(target);
}

template <typename T>
void call_boost_greedy(const T* columns, const BinnedColumns<T>& bins, const T* y, const T* weight, int64_t n_outputs,
                       const GreedySettings& settings, const LossSettings& loss, int n_rounds, double learning_rate,
                       int n_threads, Interrupt* interrupt, T* prediction, std::vector<TreeArrays<T>>& out) {
  GreedyFitter<T> fitter(columns, bins, weight, n_outputs, settings, n_threads, interrupt);
  LeafRefitter<T> refitter(loss, weight, n_outputs, bins.n_samples, n_threads, interrupt);
  out = boost_greedy(fitter, refitter, loss, y, n_outputs * bins.n_samples, n_rounds, static_cast<T>(learning_rate),
                     prediction);
}

template <typename T>
void call_negative_gradient(const LossSettings& loss, const T* y, const T* raw, int64_t size, T* out) {
  LossFunction<T>(loss, nullptr, 1, size).gradient(y, raw, out);
  for (int64_t i = 0; i < size; ++i) out[i] = -out[i];
}

template <typename T>
void call_refit_leaves(const LossSettings& loss, const TreeView<T>& tree, const T* z, const T* y, const T* raw,
                       const T* weight, int64_t n_samples, int n_threads, Interrupt* interrupt, T* output) {
  LeafRefitter<T>(loss, weight, tree.n_outputs, n_samples, n_threads, interrupt).refit(tree, z, y, raw, output);
}

template <typename T>
void call_fit_joint(const T* x, const T* target, const T* weight, int64_t n_inputs, int64_t n_samples,
                    const JointSettings& settings, int n_threads, Interrupt* interrupt, const TreeView<T>& tree, T* q,
                    T* output, double* loss_trace) {
  if (!settings.greedy_gates) {
    JointFitter<T>(x, target, weight, n_inputs, n_samples, settings, n_threads, interrupt)
        .run(tree, q, output, loss_trace);
    return;
  }
  // Adam steps have a fixed length: fit a target of unit size, then rescale the leaves
  const int64_t size = tree.n_outputs * n_samples, n_leaves = leaf_count(tree);
  const T unit = root_mean_square(target, weight, tree.n_outputs, n_samples);
  std::vector<T> scaled(target, target + size);
  for (T& value : scaled) value /= unit;
  greedy_gates(x, scaled.data(), weight, n_inputs, n_samples, settings, n_threads, interrupt, tree, q);
  if (interrupted(interrupt)) return;
  JointFitter<T>(x, scaled.data(), weight, n_inputs, n_samples, settings, n_threads, interrupt)
      .run(tree, q, output, loss_trace);
  for (int64_t i = 0; i < size; ++i) output[i] *= unit;
  for (int64_t i = 0; i < n_leaves * tree.n_outputs; ++i) tree.leaf_values[i] *= unit;
  if (tree.leaf_weights)
    for (int64_t i = 0; i < n_leaves * tree.n_outputs * tree.n_components; ++i) tree.leaf_weights[i] *= unit;
}

template <typename T>
constexpr Kernels<T> kernels() {
  return {&leaf_probabilities<T>, &tree_output<T>,       &tree_gradients<T>,         &bin_columns<T>,
          &call_fit_greedy<T>,    &call_boost_greedy<T>, &call_negative_gradient<T>, &call_refit_leaves<T>,
          &call_fit_joint<T>,     &predict<T>,           &predict_each<T>,           &column_effects<T>,
          &weighted_means<T>,     &moments<T>,           &linear_outputs<T>};
}

}  // namespace

const KernelTable& kernel_table() {
  static const KernelTable table{SB_QUOTE(SB_ISA),    kernels<float>(),   kernels<double>(), &lasso_path,
                                 &ridge_path,         &relaxed_path,      &loss_intercept,   &rls_update,
                                 &solve_with_inverse, &smoothing_columns, &smoothing_bank};
  return table;
}

}  // namespace SB_ISA
}  // namespace softboost
