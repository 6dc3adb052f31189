// Plain data passed from the bindings to the kernels. This header must not define functions: it is shared by builds for
// different instruction sets, and a function could be linked into the wrong build.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace softboost {

// Interrupt flag of a long computation. Only the thread that called the kernel may poll. Once it is raised, the results
// are invalid and every loop ends as soon as possible.
struct Interrupt {
  bool (*poll)() = nullptr;
  std::atomic<bool> raised{false};
};

// Settings of a greedy tree.
struct GreedySettings {
  int depth = 2;                       // depth of the grown tree
  bool shallower = false;              // also try every smaller depth
  std::vector<double> sharpness{3.0};  // slopes to try, per unit of the (standardised) columns
  std::vector<double> ridge{1.0};      // all candidates use the first; the others are tried on the best candidate
  bool linear_leaves = false;          // leaves linear in the split columns, else constant
  int64_t n_extra_columns = 0;         // linear leaves: number of further columns, those with the largest correlation
  bool detrended_candidate = false;    // also grow a tree on the residuals of a ridge regression on 4 columns
  double min_leaf_weight = 5.0;
  int64_t n_selection_rows = 4096;  // leave-one-out errors are computed on this number of first rows
};

// Losses of which the kernels know gradient and curvature; see softboost/losses.py.
enum class LossKind : int { squared, absolute, quantile, huber, log_cosh, poisson, gamma, tweedie };

struct LossSettings {
  LossKind kind = LossKind::squared;
  double parameter = 1.0;     // quantile, delta, scale or power
  bool refit_leaves = false;  // whether the leaves of a tree are fitted to the loss after the tree
};

enum class TransformKind : int { identity = 0, diagonal = 1, linear = 2 };

// Settings of the joint steps on a tree and its transform.
struct JointSettings {
  TransformKind transform = TransformKind::identity;
  bool solve_leaves = false;  // solve leaves by ridge regression at every step, else move them by gradient steps
  bool learn_gates = true;
  bool learn_transform = true;
  int64_t n_steps = 40;
  double gate_learning_rate = 0.05;
  double leaf_learning_rate = 0.05;
  double transform_learning_rate = 0.02;
  double ridge = 1.0;         // solve_leaves: ridge of the leaf regression
  double weight_decay = 0.0;  // on gate weights
  double group_lasso = 0.0;   // on the columns of Q
  bool cosine_decay = true;
  bool greedy_gates = false;     // start from the best splits on z, for a target scaled to unit size
  double min_leaf_weight = 5.0;  // greedy_gates: as in GreedySettings
};

// One fitted greedy tree. Gate and leaf weights refer to `columns`, the few columns this tree uses.
template <typename T>
struct TreeArrays {
  int depth = 0;
  std::vector<int32_t> columns;
  std::vector<T> gate_weights, gate_bias, leaf_values, leaf_weights;
  std::vector<T> output;     // (n_outputs, n_samples)
  std::vector<double> gain;  // (n_columns,): squared-error gain of the splits on each column
  double sharpness = 0, ridge = 0, leave_one_out = 0;
};

// Boosted trees end to end, as in Ensemble.
template <typename T>
struct FlatTrees {
  std::vector<int32_t> depth, columns;
  std::vector<int64_t> n_columns;
  std::vector<T> gate_weights, gate_bias, leaf;
};

// A view of one tree on all components of z; uses const T for kernels that only read it.
template <typename T>
struct TreeView {
  int depth;
  int64_t n_components, n_outputs;
  T* gate_weights;  // (n_nodes, n_components)
  T* gate_bias;     // (n_nodes,)
  T* leaf_values;   // (n_leaves, n_outputs)
  T* leaf_weights;  // (n_leaves, n_outputs, n_components), or null for constant leaves
};

// One recurrent layer: a plain one with one gate per unit, or an LSTM with four.
template <typename T>
struct RecurrentLayer {
  bool is_lstm;
  int64_t n_steps, n_inputs, n_hidden;
  const T* input_weights;  // (n_gates * n_hidden, n_inputs)
  const T* state_weights;  // (n_gates * n_hidden, n_hidden)
  const T* bias;           // (n_gates * n_hidden,)
};

// Inputs, hidden layers of equal width, outputs.
struct NetworkShape {
  int64_t n_inputs, n_hidden, n_layers, n_outputs;
};

// Rows x (n_rows, n_inputs) of networks, and how they are standardised.
template <typename T>
struct NetworkInputs {
  const T *x, *mean, *scale;  // mean and scale (n_inputs,)
  T farthest;                 // in standard deviations
};

// Binary trees with thresholds whose outputs are summed. A leaf is its own left and right child.
struct HardTreeArrays {
  std::vector<int32_t> feature, left, right, roots;
  std::vector<double> threshold;
  std::vector<double> values;  // (n_nodes, n_outputs), zero at inner nodes
};

// The same as pointers, for prediction.
struct HardTreeView {
  int64_t n_trees, n_outputs;
  bool single;  // z is rounded to single precision before it is compared
  const int32_t *feature, *left, *right, *roots;
  const double *threshold, *values;
};

constexpr int kMaxDepth = 10;
constexpr int64_t kMaxBins = 256;
constexpr int64_t kMaxSorted = 1024;  // splits are searched in sorted rows up to this number, beyond in histograms

// Columns in at most 256 bins. With at most 256 distinct values, every value has its own bin, and the search over bins
// is the exact search over all thresholds.
template <typename T>
struct BinnedColumns {
  const uint8_t* bins;   // (n_columns, n_samples)
  const int32_t* count;  // (n_columns,) number of bins
  const T* threshold;    // (n_columns, 256): bin b is at or below threshold[b]
  const int32_t* order;  // (n_columns, n_samples): rows by bin; null beyond kMaxSorted rows
  int64_t n_columns;
  int64_t n_samples;
};

// Concatenated trees. Tree k uses the inputs columns[column_start[k] .. column_start[k + 1]); its gate weights, gate
// biases and leaf coefficients start at the given offsets. leaf = values (n_leaves, n_outputs), then, if linear[k],
// weights (n_leaves, n_outputs, n_columns of the tree).
template <typename T>
struct Ensemble {
  int64_t n_inputs, n_outputs, n_trees;
  const T* offset;        // (n_inputs,) subtracted from each input
  const T* scale;         // (n_inputs,) then multiplied; a missing value becomes zero, the training mean
  const T* low;           // (n_inputs,) lower limit of the result
  const T* high;          // (n_inputs,) upper limit
  const T* intercept;     // (n_outputs,)
  const T* coefficients;  // (n_outputs, n_inputs)
  const int32_t* depth;
  const uint8_t* linear;
  const int64_t* column_start;
  const int32_t* columns;
  const int64_t* weight_start;
  const T* gate_weights;
  const int64_t* bias_start;
  const T* gate_bias;
  const int64_t* leaf_start;
  const T* leaf;
};

}  // namespace softboost
