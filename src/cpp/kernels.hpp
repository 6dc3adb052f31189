// The table of kernels compiled for one instruction set; bind_instruction_sets.cpp selects a table at import.
#pragma once

#include "types.hpp"

namespace softboost {

template <typename T>
struct Kernels {
  void (*leaf_probabilities)(const T* z, const T* gate_weights, const T* gate_bias, int64_t n_samples,
                             int64_t n_components, int depth, int n_threads, T* out);
  void (*tree_output)(const TreeView<const T>& tree, const T* z, int64_t n_samples, int n_threads, T* out);
  void (*tree_gradients)(const TreeView<const T>& tree, const T* z, const T* grad_output, int64_t n_samples,
                         int n_threads, T* grad_gate_weights, T* grad_gate_bias, T* grad_leaf_values,
                         T* grad_leaf_weights, T* grad_z);
  void (*bin_columns)(const T* columns, const T* weight, int64_t n_columns, int64_t n_samples, int64_t max_bins,
                      int n_threads, Interrupt* interrupt, uint8_t* bins, int32_t* count, T* threshold, int32_t* order);
  void (*fit_greedy)(const T* columns, const BinnedColumns<T>& bins, const T* target, const T* weight,
                     int64_t n_outputs, const GreedySettings& settings, int n_threads, Interrupt* interrupt,
                     TreeArrays<T>& out);
  void (*boost_greedy)(const T* columns, const BinnedColumns<T>& bins, const T* y, const T* weight, int64_t n_outputs,
                       const GreedySettings& settings, const LossSettings& loss, int n_rounds, double learning_rate,
                       int n_threads, Interrupt* interrupt, T* prediction, FlatTrees<T>& out);
  void (*negative_gradient)(const LossSettings& loss, const T* y, const T* raw, int64_t size, T* out);
  void (*refit_leaves)(const LossSettings& loss, const TreeView<T>& tree, const T* z, const T* y, const T* raw,
                       const T* weight, int64_t n_samples, int n_threads, Interrupt* interrupt, T* output);
  void (*fit_joint)(const T* x, const T* target, const T* weight, int64_t n_inputs, int64_t n_samples,
                    const JointSettings& settings, int n_threads, Interrupt* interrupt, const TreeView<T>& tree, T* q,
                    T* output, double* loss_trace);
  void (*boost_joint)(const T* x, const T* y, const T* weight, int64_t n_inputs, int64_t n_samples,
                      const JointSettings& settings, const LossSettings& loss, int64_t n_rounds, double learning_rate,
                      int n_threads, Interrupt* interrupt, const TreeView<T>& trees, int64_t q_size, T* q,
                      T* prediction);
  void (*joint_outputs)(const T* x, int64_t n_inputs, int64_t n_samples, int64_t n_rounds, double learning_rate,
                        int n_threads, const TreeView<const T>& trees, const T* q, T* out);
  void (*predict)(const Ensemble<T>& ensemble, const T* rows, int64_t n_samples, int n_threads, T* out);
  void (*predict_each)(const Ensemble<T>& ensemble, const T* rows, int64_t n_samples, int n_threads, T* out);
  void (*column_effects)(const Ensemble<T>& ensemble, const T* rows, const T* weight, int64_t n_samples, int n_threads,
                         double* out);
  void (*weighted_means)(const T* x, const T* weight, int64_t n_columns, int64_t n_samples, int n_threads,
                         double* mean);
  void (*moments)(const T* x, const T* y, const T* weight, int64_t n_columns, int64_t n_outputs, int64_t n_samples,
                  const double* mean_x, const double* mean_y, int n_threads, Interrupt* interrupt, double* gram,
                  double* cross);
  void (*linear_outputs)(const double* coefficients, const double* intercepts, int64_t n_models, const T* x,
                         int64_t n_columns, int64_t n_samples, int n_threads, double* out);
  void (*recurrent_states)(const RecurrentLayer<T>& layer, const T* x, int64_t n_samples, int n_threads, T* states,
                           T* gates, T* cells);
  void (*recurrent_gradients)(const RecurrentLayer<T>& layer, const T* x, const T* states, const T* gates,
                              const T* cells, const T* grad_states, int64_t n_samples, int n_threads,
                              T* grad_input_weights, T* grad_state_weights, T* grad_bias, T* grad_x);
  void (*fit_networks)(const NetworkShape& shape, const NetworkInputs<T>& inputs, const T* y, const T* weight,
                       int64_t n_networks, const int32_t* order, int64_t n_steps, int64_t batch, double learning_rate,
                       int n_threads, Interrupt* interrupt, T* parameters);
  void (*network_outputs)(const NetworkShape& shape, const NetworkInputs<T>& inputs, int64_t n_rows,
                          const T* parameters, int64_t n_networks, int n_threads, T* out);
  void (*grow_forest)(const T* columns, const T* target, const T* weight, int64_t n_columns, int64_t n_samples,
                      int64_t n_outputs, int64_t n_trees, int n_threads, Interrupt* interrupt, HardTreeArrays& out);
  void (*hard_tree_output)(const HardTreeView& tree, const T* z, int64_t n_components, int64_t n_samples, int n_threads,
                           T* out);
};

struct KernelTable {
  const char* instruction_set;
  Kernels<float> f32;
  Kernels<double> f64;
  void (*for_each)(int64_t n, int n_threads, void (*body)(void* context, int64_t i), void* context,
                   Interrupt* interrupt);
  void (*lasso_path)(const double* gram, const double* cross, int64_t n_columns, const double* penalties,
                     int64_t n_penalties, double tolerance, int64_t max_sweeps, double* out);
  void (*ridge_path)(const double* gram, const double* cross, int64_t n_columns, int64_t n_outputs,
                     const double* penalties, int64_t n_penalties, Interrupt* interrupt, double* out,
                     double* log_determinants);
  void (*relaxed_path)(const double* gram, const double* cross, int64_t n_columns, const double* path, int64_t n_stages,
                       double limit, double ridge, double* out);
  double (*loss_intercept)(const LossSettings& loss, const double* y, const double* weight, int64_t n);
  double (*rls_update)(double* covariance, const double* basis, int64_t n, double gap, double* gain);
  void (*solve_with_inverse)(const double* gram, const double* cross, int64_t n, Interrupt* interrupt,
                             double* coefficients, double* covariance);
  int64_t (*smoothing_columns)(int64_t h, int64_t longest_season);
  void (*smoothing_bank)(const double* y, const int64_t* indptr, int64_t n_series, const int64_t* seasons,
                         int64_t n_seasons, int64_t h, const int64_t* first, int64_t n_origins, int64_t stride,
                         int64_t n_evidence, int n_threads, Interrupt* interrupt, double* forecast, double* unit,
                         double* logs, double* views, float* columns);
};

namespace baseline {
const KernelTable& kernel_table();
}
namespace avx2 {
const KernelTable& kernel_table();
}
namespace avx512 {
const KernelTable& kernel_table();
}

}  // namespace softboost
