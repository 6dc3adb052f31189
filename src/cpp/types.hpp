// Plain data that crosses from the bindings into the kernels. No functions live here: this header is shared by builds
// for different instruction sets, and a function in it could be linked into the wrong one.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace softboost {

// Whether the user wants a long computation to end. Only the thread that called the kernel may poll; once raised, the
// results are worthless and every loop ends as soon as it can.
struct Interrupt {
  bool (*poll)() = nullptr;
  std::atomic<bool> raised{false};
};

// How to grow and soften one greedy tree.
struct GreedySettings {
  int depth = 2;                       // depth of the grown tree
  bool shallower = false;              // also try every smaller depth
  std::vector<double> sharpness{3.0};  // slopes to try, in units of the (standardised) columns
  std::vector<double> ridge{1.0};      // the first is used for all candidates, the others are tried on the winner
  bool linear_leaves = false;          // leaves linear in the split columns, else constant
  int64_t n_extra_columns = 0;         // linear leaves: also in this many other columns, those of largest correlation
  bool detrended_candidate = false;    // also grow a tree on what a ridge fit on 4 columns leaves over
  double min_leaf_weight = 5.0;
  int64_t n_selection_rows = 4096;  // leave-one-out errors are computed on the first so many rows
};

enum class TransformKind : int { identity = 0, diagonal = 1, linear = 2 };

// How to move one tree and its transform together.
struct JointSettings {
  TransformKind transform = TransformKind::identity;
  bool solve_leaves = false;  // leaves by ridge regression at every step; else gradient steps, like the gates
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
};

// One fitted greedy tree. Gate and leaf weights refer to `columns`, the few columns this tree uses.
template <typename T>
struct TreeArrays {
  int depth = 0;
  std::vector<int32_t> columns;
  std::vector<T> gate_weights, gate_bias, leaf_values, leaf_weights;
  std::vector<T> output;     // (n_outputs, n_samples)
  std::vector<double> gain;  // (n_columns,): squared-error gain credited to each of all columns
  double sharpness = 0, ridge = 0, leave_one_out = 0;
};

// A view of one tree that looks at all components of z; of const T for kernels that only read it.
template <typename T>
struct TreeView {
  int depth;
  int64_t n_components, n_outputs;
  T* gate_weights;  // (n_nodes, n_components)
  T* gate_bias;     // (n_nodes,)
  T* leaf_values;   // (n_leaves, n_outputs)
  T* leaf_weights;  // (n_leaves, n_outputs, n_components), or null where leaves are constant
};

constexpr int kMaxDepth = 10;
constexpr int64_t kMaxBins = 256;
constexpr int64_t kMaxSorted = 1024;  // up to so many rows splits are searched along sorted rows, beyond in histograms

// Columns cut into at most 256 bins. With at most 256 distinct values every value has its own bin, so the search
// over bins is then the exact search over all thresholds.
template <typename T>
struct BinnedColumns {
  const uint8_t* bins;   // (n_columns, n_samples)
  const int32_t* count;  // (n_columns,) number of bins
  const T* threshold;    // (n_columns, 256): bin b is at or below threshold[b]
  const int32_t* order;  // (n_columns, n_samples): rows by bin; null beyond kMaxSorted rows
  int64_t n_columns;
  int64_t n_samples;
};

// Trees end to end. Tree k uses the inputs columns[column_start[k] .. column_start[k + 1]), and its gate weights, gate
// biases and leaf coefficients begin at the given starts. leaf = values (n_leaves, n_outputs), then, if linear[k],
// weights (n_leaves, n_outputs, n_columns of the tree).
template <typename T>
struct Ensemble {
  int64_t n_inputs, n_outputs, n_trees;
  const T* offset;        // (n_inputs,) subtracted from each input
  const T* scale;         // (n_inputs,) then multiplied; a missing value becomes zero, the training mean
  const T* low;           // (n_inputs,) what is then below counts as this
  const T* high;          // (n_inputs,) what is above, as this
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
