// Compiled once per instruction set with -DSB_ISA=<name>; all definitions are in namespace softboost::<name>.
#include "kernels.hpp"

#include <algorithm>

#include "greedy.hpp"
#include "joint.hpp"
#include "linear.hpp"
#include "predict.hpp"
#include "recursive.hpp"
#include "smoothing.hpp"

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
                       const GreedySettings& settings, int n_rounds, double learning_rate, int n_threads,
                       Interrupt* interrupt, T* prediction, std::vector<TreeArrays<T>>& out) {
  GreedyFitter<T> fitter(columns, bins, weight, n_outputs, settings, n_threads, interrupt);
  out = boost_greedy(fitter, y, n_outputs * bins.n_samples, n_rounds, static_cast<T>(learning_rate), prediction);
}

template <typename T>
void call_fit_joint(const T* x, const T* target, const T* weight, int64_t n_inputs, int64_t n_samples,
                    const JointSettings& settings, int n_threads, Interrupt* interrupt, const TreeView<T>& tree, T* q,
                    T* output, double* loss_trace) {
  JointFitter<T>(x, target, weight, n_inputs, n_samples, settings, n_threads, interrupt)
      .run(tree, q, output, loss_trace);
}

template <typename T>
constexpr Kernels<T> kernels() {
  return {&leaf_probabilities<T>, &tree_output<T>,    &tree_gradients<T>, &bin_columns<T>,  &call_fit_greedy<T>,
          &call_boost_greedy<T>,  &call_fit_joint<T>, &predict<T>,        &predict_each<T>, &column_effects<T>,
          &weighted_means<T>,     &moments<T>,        &linear_outputs<T>};
}

}  // namespace

const KernelTable& kernel_table() {
  static const KernelTable table{SB_QUOTE(SB_ISA),   kernels<float>(), kernels<double>(), &lasso_path,
                                 &ridge_path,        &relaxed_path,    &rls_update,       &solve_with_inverse,
                                 &smoothing_columns, &smoothing_bank};
  return table;
}

}  // namespace SB_ISA
}  // namespace softboost
