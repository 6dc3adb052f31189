// Compiled once per instruction set with -DSB_ISA=<name>; everything it defines lives in namespace softboost::<name>.
#include "kernels.hpp"

#include <algorithm>

#include "greedy.hpp"
#include "joint.hpp"
#include "linear.hpp"
#include "predict.hpp"
#include "recursive.hpp"

#define SB_QUOTE_(x) #x
#define SB_QUOTE(x) SB_QUOTE_(x)

namespace softboost {
namespace SB_ISA {
namespace {

template <typename T>
DenseTree<T> dense(const TreePointers<T>& t) {
  return {t.depth, t.n_components, t.n_outputs, t.gate_weights, t.gate_bias, t.leaf_values, t.leaf_weights};
}

template <typename T>
void call_tree_output(const TreePointers<T>& tree, const T* z, int64_t n_samples, int n_threads, T* out) {
  tree_output(dense(tree), z, n_samples, n_threads, out);
}

template <typename T>
void call_tree_gradients(const TreePointers<T>& tree, const T* z, const T* grad_output, int64_t n_samples,
                         int n_threads, T* grad_gate_weights, T* grad_gate_bias, T* grad_leaf_values,
                         T* grad_leaf_weights, T* grad_z) {
  tree_gradients(dense(tree), z, grad_output, n_samples, n_threads, grad_gate_weights, grad_gate_bias, grad_leaf_values,
                 grad_leaf_weights, grad_z);
}

template <typename T>
void call_fit_greedy(const T* columns, const BinnedColumns<T>& bins, const T* target, const T* weight,
                     int64_t n_outputs, const GreedySettings& settings, int n_threads, Interrupt* interrupt,
                     TreeArrays<T>& out) {
  out = GreedyFitter<T>(columns, bins, weight, n_outputs, settings, n_threads, interrupt).fit(target);
}

template <typename T>
void call_boost_greedy(const T* columns, const BinnedColumns<T>& bins, const T* y, const T* weight, int64_t n_outputs,
                       const GreedySettings& settings, int n_rounds, double learning_rate, int n_threads,
                       Interrupt* interrupt, T* prediction, std::vector<TreeArrays<T>>& out) {
  GreedyFitter<T> fitter(columns, bins, weight, n_outputs, settings, n_threads, interrupt);
  out = boost_greedy(fitter, y, n_outputs * bins.n_samples, n_rounds, static_cast<T>(learning_rate), prediction);
}

template <typename T>
void call_fit_joint(const T* x, const T* target, const T* weight, int64_t n_inputs, int64_t n_samples,
                    const JointSettings& settings, int n_threads, Interrupt* interrupt, const TreePointers<T>& tree,
                    T* q, T* output, double* loss_trace) {
  JointFitter<T>(x, target, weight, n_inputs, n_samples, settings, n_threads, interrupt)
      .run(tree.depth, tree.n_components, tree.n_outputs, q, tree.gate_weights, tree.gate_bias, tree.leaf_values,
           tree.leaf_weights, output, loss_trace);
}

template <typename T>
constexpr Kernels<T> kernels() {
  return {&leaf_probabilities<T>, &call_tree_output<T>,  &call_tree_gradients<T>, &bin_columns<T>,
          &call_fit_greedy<T>,    &call_boost_greedy<T>, &call_fit_joint<T>,      &predict<T>,
          &predict_each<T>,       &column_effects<T>,    &weighted_means<T>,      &moments<T>,
          &linear_outputs<T>};
}

}  // namespace

const KernelTable& kernel_table() {
  static const KernelTable table{SB_QUOTE(SB_ISA), kernels<float>(), kernels<double>(), &lasso_path,
                                 &ridge_path,      &relaxed_path,    &rls_update,       &solve_with_inverse};
  return table;
}

}  // namespace SB_ISA
}  // namespace softboost
