// The map of the extension `softboost._core`: arrays in, arrays out. The only caller, _kernels.py, checks shapes; an
// ensemble validates itself, because its arrays may come from a file.
#include "bindings.hpp"

NB_MODULE(_core, m) {
  m.doc() = "Compiled kernels of softboost; use softboost._kernels instead.";
  nanobind::set_leak_warnings(false);   // a model in a global variable at exit is not a leak
  softboost::bind_settings(m);          // MAX_DEPTH, GreedySettings, JointSettings, TransformKind
  softboost::bind_soft_tree(m);         // leaf_probabilities, tree_output, tree_gradients
  softboost::bind_fit(m);               // bin_columns, fit_greedy, boost_greedy, fit_joint
  softboost::bind_forest(m);            // grow_forest, hard_tree_output
  softboost::bind_linear(m);            // moments, linear_outputs
  softboost::bind_ensemble(m);          // Ensemble32, Ensemble64
  softboost::bind_many(m);              // ridge_each, boost_each, Ensembles, predict_many
  softboost::bind_solvers(m);           // lasso_path, ridge_path, relaxed_path, rls_update, solve_with_inverse
  softboost::bind_smoothing(m);         // smoothing_bank
  softboost::bind_recurrent(m);         // recurrent_states, recurrent_gradients
  softboost::bind_network(m);           // fit_networks, network_outputs
  softboost::bind_instruction_sets(m);  // instruction_set, instruction_sets, use_instruction_set
}
