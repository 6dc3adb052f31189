// Compiled once per instruction set with -DSB_ISA=<name>; all definitions are in namespace softboost::<name>.
#include "kernels.hpp"

#include <algorithm>

#include "forest.hpp"
#include "greedy.hpp"
#include "joint.hpp"
#include "linear.hpp"
#include "network.hpp"
#include "predict.hpp"
#include "recurrent.hpp"
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
  GreedyFitter<T>(columns, bins, weight, n_outputs, settings, n_threads, interrupt).fit(target, out);
}

template <typename T>
void call_boost_greedy(const T* columns, const BinnedColumns<T>& bins, const T* y, const T* weight, int64_t n_outputs,
                       const GreedySettings& settings, const LossSettings& loss, int n_rounds, double learning_rate,
                       int n_threads, Interrupt* interrupt, T* prediction, FlatTrees<T>& out) {
  GreedyFitter<T> fitter(columns, bins, weight, n_outputs, settings, n_threads, interrupt);
  LeafRefitter<T> refitter(loss, weight, n_outputs, bins.n_samples, n_threads, interrupt);
  boost_greedy(fitter, refitter, loss, y, n_outputs * bins.n_samples, n_rounds, static_cast<T>(learning_rate),
               prediction, out);
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

// One round of joint steps; `fitter` has the same arguments.
template <typename T>
void run_joint(JointFitter<T>& fitter, const T* x, const T* target, const T* weight, int64_t n_inputs,
               int64_t n_samples, const JointSettings& settings, int n_threads, Interrupt* interrupt,
               const TreeView<T>& tree, T* q, T* output, double* loss_trace) {
  if (!settings.greedy_gates) {
    fitter.run(tree, target, q, output, loss_trace);
    return;
  }
  // Adam steps have a fixed length: fit a target of unit size, then rescale the leaves
  const int64_t size = tree.n_outputs * n_samples, n_leaves = leaf_count(tree);
  const T unit = root_mean_square(target, weight, tree.n_outputs, n_samples);
  std::vector<T> scaled(target, target + size);
  for (T& value : scaled) value /= unit;
  greedy_gates(x, scaled.data(), weight, n_inputs, n_samples, settings, n_threads, interrupt, tree, q);
  if (interrupted(interrupt)) return;
  fitter.run(tree, scaled.data(), q, output, loss_trace);
  for (int64_t i = 0; i < size; ++i) output[i] *= unit;
  for (int64_t i = 0; i < n_leaves * tree.n_outputs; ++i) tree.leaf_values[i] *= unit;
  if (tree.leaf_weights)
    for (int64_t i = 0; i < n_leaves * tree.n_outputs * tree.n_components; ++i) tree.leaf_weights[i] *= unit;
}

template <typename T>
void call_fit_joint(const T* x, const T* target, const T* weight, int64_t n_inputs, int64_t n_samples,
                    const JointSettings& settings, int n_threads, Interrupt* interrupt, const TreeView<T>& tree, T* q,
                    T* output, double* loss_trace) {
  JointFitter<T> fitter(x, weight, n_inputs, n_samples, settings, n_threads, interrupt);
  run_joint(fitter, x, target, weight, n_inputs, n_samples, settings, n_threads, interrupt, tree, q, output,
            loss_trace);
}

// The tree of one round among the concatenated arrays of all rounds.
template <typename T>
TreeView<T> tree_of_round(const TreeView<T>& trees, int64_t k) {
  const int64_t m = trees.n_components, leaves = leaf_count(trees), nodes = leaves - 1, o = trees.n_outputs;
  return {trees.depth,
          m,
          o,
          trees.gate_weights + k * nodes * m,
          trees.gate_bias + k * nodes,
          trees.leaf_values + k * leaves * o,
          trees.leaf_weights ? trees.leaf_weights + k * leaves * o * m : nullptr};
}

// Algorithm 1 with joint steps, for a loss without refitted leaves. q (n_rounds, q_size) begins with the initial
// transform; each operation is a separate loop, as in boost_greedy.
template <typename T>
void call_boost_joint(const T* x, const T* y, const T* weight, int64_t n_inputs, int64_t n_samples,
                      const JointSettings& settings, const LossSettings& loss, int64_t n_rounds, double learning_rate,
                      int n_threads, Interrupt* interrupt, const TreeView<T>& trees, int64_t q_size, T* q,
                      T* prediction) {
  const int64_t size = trees.n_outputs * n_samples;
  const T rate = static_cast<T>(learning_rate);
  std::vector<T> residual(static_cast<size_t>(size)), output(residual.size());
  JointFitter<T> fitter(x, weight, n_inputs, n_samples, settings, n_threads, interrupt);
  for (int64_t k = 0; k < n_rounds; ++k) {
    T* own = q + k * q_size;
    if (k > 0) std::copy_n(own - q_size, q_size, own);
    call_negative_gradient(loss, y, prediction, size, residual.data());
    run_joint<T>(fitter, x, residual.data(), weight, n_inputs, n_samples, settings, n_threads, interrupt,
                 tree_of_round(trees, k), own, output.data(), nullptr);
    if (interrupted(interrupt)) return;
    for (T& value : output) value *= rate;
    for (int64_t i = 0; i < size; ++i) prediction[i] += output[i];
  }
}

// out (n_rounds, n_outputs, n_samples): learning_rate times the output of each round at z = Q_k x
template <typename T>
void call_joint_outputs(const T* x, int64_t n_inputs, int64_t n_samples, int64_t n_rounds, double learning_rate,
                        int n_threads, const TreeView<const T>& trees, const T* q, T* out) {
  const int64_t m = trees.n_components, size = trees.n_outputs * n_samples;
  const std::vector<double> none(static_cast<size_t>(m), 0.0);
  std::vector<double> precise(static_cast<size_t>(m * n_samples)), coefficients(static_cast<size_t>(m * n_inputs));
  std::vector<T> z(precise.size());
  for (int64_t k = 0; k < n_rounds; ++k) {
    std::copy_n(q + k * m * n_inputs, m * n_inputs, coefficients.begin());
    linear_outputs(coefficients.data(), none.data(), m, x, n_inputs, n_samples, 1, precise.data());
    std::transform(precise.begin(), precise.end(), z.begin(), [](double v) { return static_cast<T>(v); });
    tree_output(tree_of_round(trees, k), z.data(), n_samples, n_threads, out + k * size);
    for (int64_t i = 0; i < size; ++i) out[k * size + i] *= static_cast<T>(learning_rate);
  }
}

// body(context, i) for i = 0 .. n - 1, on several threads
void for_each(int64_t n, int n_threads, void (*body)(void* context, int64_t i), void* context, Interrupt* interrupt) {
  parallel_for(n, n_threads, [&](int64_t i) { body(context, i); }, interrupt);
}

template <typename T>
constexpr Kernels<T> kernels() {
  return {&leaf_probabilities<T>, &tree_output<T>,       &tree_gradients<T>,         &bin_columns<T>,
          &call_fit_greedy<T>,    &call_boost_greedy<T>, &call_negative_gradient<T>, &call_refit_leaves<T>,
          &call_fit_joint<T>,     &call_boost_joint<T>,  &call_joint_outputs<T>,     &predict<T>,
          &predict_each<T>,       &column_effects<T>,    &weighted_means<T>,         &moments<T>,
          &linear_outputs<T>,     &recurrent_states<T>,  &recurrent_gradients<T>,    &fit_networks<T>,
          &network_outputs<T>,    &grow_forest<T>,       &hard_tree_output<T>};
}

}  // namespace

const KernelTable& kernel_table() {
  static const KernelTable table{SB_QUOTE(SB_ISA), kernels<float>(),    kernels<double>(),  &for_each,
                                 &lasso_path,      &ridge_path,         &relaxed_path,      &loss_intercept,
                                 &rls_update,      &solve_with_inverse, &smoothing_columns, &smoothing_bank};
  return table;
}

}  // namespace SB_ISA
}  // namespace softboost
