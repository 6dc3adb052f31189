// A soft tree from a greedy tree: grow a hard tree, soften its splits and solve the leaves in closed form. The depth,
// the sharpness and the ridge penalty minimise the exact leave-one-out error.
#pragma once

#include <limits>

#include "grow.hpp"
#include "soft_tree.hpp"
#include "solve.hpp"

namespace softboost {
namespace SB_ISA {

constexpr int64_t kMaxBasis = 1024;    // maximum number of coefficients of the leaves of one tree
constexpr double kClosedGate = -64.0;  // logit of a node without a split: all but 1e-28 goes left

template <typename T>
class GreedyFitter {
 public:
  GreedyFitter(const T* columns, const BinnedColumns<T>& binned, const T* weight, int64_t n_outputs,
               const GreedySettings& options, int n_threads, Interrupt* interrupt)
      : x_(columns), binned_(binned), weight_(weight), n_(binned.n_samples), n_columns_(binned.n_columns),
        n_outputs_(n_outputs), options_(options), n_threads_(n_threads), interrupt_(interrupt),
        grower_(binned, n_outputs, options.depth, n_threads, interrupt) {
    if (weight_) {
      root_weight_.resize(static_cast<size_t>(n_));
      for (int64_t i = 0; i < n_; ++i) root_weight_[i] = std::sqrt(weight_[i]);
    }
  }

  TreeArrays<T> fit(const T* target) {
    target_ = target;
    TreeArrays<T> result;
    result.gain.assign(static_cast<size_t>(n_columns_), 0.0);
    if (options_.n_extra_columns > 0 || options_.detrended_candidate) rank_columns();

    std::vector<Candidate> candidates;
    add_candidates(grower_.grow(target, weight_, options_.depth, options_.min_leaf_weight), candidates);
    if (options_.detrended_candidate) {
      detrend(std::min<int64_t>(4, n_columns_));
      add_candidates(grower_.grow(detrended_.data(), weight_, options_.depth, options_.min_leaf_weight), candidates);
    }
    const Candidate* best = &candidates[0];
    double best_sharpness = options_.sharpness[0], best_ridge = options_.ridge[0];
    double best_error = std::numeric_limits<double>::infinity();
    const int64_t n_selection = std::min(n_, options_.n_selection_rows);
    const bool choose = candidates.size() > 1 || options_.sharpness.size() > 1 || options_.ridge.size() > 1;
    if (choose) {
      for (const Candidate& candidate : candidates)
        for (double sharpness : options_.sharpness) {
          if (interrupted(interrupt_)) return result;
          gram(candidate, sharpness, n_selection);
          try_ridge(candidate, sharpness, options_.ridge[0], n_selection, best, best_sharpness, best_ridge, best_error);
        }
      if (options_.ridge.size() > 1) {
        const Candidate* winner = best;
        const double sharpness = best_sharpness;
        gram(*winner, sharpness, n_selection);
        for (size_t j = 1; j < options_.ridge.size(); ++j)
          try_ridge(*winner, sharpness, options_.ridge[j], n_selection, best, best_sharpness, best_ridge, best_error);
      }
    }
    gram(*best, best_sharpness, n_);
    solve(*best, best_ridge);
    if (interrupted(interrupt_)) return result;
    write(*best, best_sharpness, result);
    result.sharpness = best_sharpness;
    result.ridge = best_ridge;
    result.leave_one_out = choose ? best_error : std::numeric_limits<double>::quiet_NaN();
    return result;
  }

 private:
  struct Candidate {
    int depth;
    std::vector<int32_t> split_column;  // per node, -1 for a node without a split
    std::vector<T> threshold;
    std::vector<double> gain;
    std::vector<int32_t> columns;  // split columns, then extra ones
    int64_t n_basis_columns;       // the leaves are linear in the first of `columns`
  };

  struct Block {
    std::vector<T> right, left, memberships, basis, target;
  };

  T root_weight(int64_t i) const { return weight_ ? root_weight_[i] : T(1); }
  int64_t basis_per_leaf(const Candidate& c) const { return 1 + c.n_basis_columns; }
  int64_t n_basis(const Candidate& c) const { return leaf_count(c.depth) * basis_per_leaf(c); }

  // columns by decreasing |x'Wr|, summed over outputs; ties are in column order
  void rank_columns() {
    std::vector<double> score(static_cast<size_t>(n_columns_), 0.0);
    for (int64_t j = 0; j < n_columns_; ++j)
      for (int64_t o = 0; o < n_outputs_; ++o) {
        double sum = 0;
        const T *x = x_ + j * n_, *r = target_ + o * n_;
        if (weight_) {
          SB_SIMD_SUM(sum)
          for (int64_t i = 0; i < n_; ++i) sum += static_cast<double>(x[i] * r[i] * weight_[i]);
        } else {
          sum = static_cast<double>(dot(x, r, n_));
        }
        score[j] += std::abs(sum);
      }
    ranked_.resize(static_cast<size_t>(n_columns_));
    for (int64_t j = 0; j < n_columns_; ++j) ranked_[j] = static_cast<int32_t>(j);
    std::stable_sort(ranked_.begin(), ranked_.end(), [&](int32_t a, int32_t b) { return score[a] > score[b]; });
    // scores within a relative difference of 1e-9 of the previous one count as equal
    for (auto first = ranked_.begin(); first != ranked_.end();) {
      auto last = first + 1;
      while (last != ranked_.end() && score[*last] >= score[*(last - 1)] * (1 - 1e-9)) ++last;
      std::sort(first, last);
      first = last;
    }
  }

  // detrended_ = target minus its ridge fit (ridge 1, with intercept) on the first k ranked columns
  void detrend(int64_t k) {
    Candidate linear;
    linear.depth = 0;
    linear.columns.assign(ranked_.begin(), ranked_.begin() + k);
    linear.n_basis_columns = k;
    gram(linear, 1.0, n_);
    solve(linear, 1.0);
    detrended_.resize(static_cast<size_t>(n_outputs_ * n_));
    for (int64_t o = 0; o < n_outputs_; ++o) {
      T* out = detrended_.data() + o * n_;
      const double* g = coefficients_.data() + o * (1 + k);
      for (int64_t i = 0; i < n_; ++i) out[i] = target_[o * n_ + i] - static_cast<T>(g[0]);
      for (int64_t a = 0; a < k; ++a) axpy(static_cast<T>(-g[1 + a]), x_ + linear.columns[a] * n_, out, n_);
    }
  }

  void add_candidates(const SplitTree& grown, std::vector<Candidate>& candidates) const {
    for (int depth = options_.shallower ? 1 : options_.depth; depth <= options_.depth; ++depth) {
      Candidate c;
      c.depth = depth;
      const int64_t n_nodes = leaf_count(depth) - 1;
      for (int64_t node = 0; node < n_nodes; ++node) {
        const int32_t j = grown.column[node];
        c.split_column.push_back(j);
        c.threshold.push_back(j >= 0 ? binned_.threshold[j * kMaxBins + grown.bin[node]] : T(0));
        c.gain.push_back(grown.gain[node]);
        if (j >= 0 && std::find(c.columns.begin(), c.columns.end(), j) == c.columns.end()) c.columns.push_back(j);
      }
      const bool known = std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& other) {
        return other.split_column == c.split_column && other.threshold == c.threshold;
      });
      if (known) continue;  // both targets gave the same splits
      if (options_.linear_leaves)
        for (int64_t extra = 0, rank = 0; extra < options_.n_extra_columns && rank < n_columns_; ++rank)
          if (std::find(c.columns.begin(), c.columns.end(), ranked_[rank]) == c.columns.end()) {
            c.columns.push_back(ranked_[rank]);
            ++extra;
          }
      // leaves of deep trees are linear in the first columns only, to limit the cost of the solve
      const int64_t most = std::max<int64_t>(kMaxBasis / leaf_count(depth) - 1, 0);
      c.n_basis_columns = options_.linear_leaves ? std::min(static_cast<int64_t>(c.columns.size()), most) : 0;
      candidates.push_back(std::move(c));
    }
  }

  // basis functions membership_l * sqrt(w) * [1, x_S] of rows [begin, begin + n), zero-padded to the stride
  void fill_block(const Candidate& c, double sharpness, int64_t begin, int64_t n, Block& block) const {
    const int64_t stride = round_up(n, 16), n_leaves = leaf_count(c.depth), n_nodes = n_leaves - 1;
    block.right.resize(static_cast<size_t>(n_nodes * stride));
    block.left.resize(block.right.size());
    block.memberships.resize(static_cast<size_t>(n_leaves * stride));
    block.basis.resize(static_cast<size_t>(n_basis(c) * stride));
    block.target.resize(static_cast<size_t>(n_outputs_ * stride));
    const T slope = static_cast<T>(sharpness);
    for (int64_t node = 0; node < n_nodes; ++node) {
      T* logit = block.right.data() + node * stride;
      const int32_t j = c.split_column[node];
      if (j < 0) {
        std::fill_n(logit, stride, static_cast<T>(kClosedGate));
        continue;
      }
      const T* x = x_ + j * n_ + begin;
      const T threshold = c.threshold[node];
      for (int64_t i = 0; i < n; ++i) logit[i] = slope * (x[i] - threshold);
      std::fill(logit + n, logit + stride, T(0));
    }
    sigmoid_pair(block.right.data(), n_nodes * stride, block.right.data(), block.left.data());
    leaf_memberships(block.right.data(), block.left.data(), c.depth, stride, n, block.memberships.data());
    const int64_t per_leaf = basis_per_leaf(c);
    for (int64_t leaf = 0; leaf < n_leaves; ++leaf) {
      const T* reach = block.memberships.data() + leaf * stride;
      T* constant = block.basis.data() + leaf * per_leaf * stride;
      if (weight_) {
        for (int64_t i = 0; i < n; ++i) constant[i] = reach[i] * root_weight_[begin + i];
      } else {
        std::copy_n(reach, n, constant);
      }
      std::fill(constant + n, constant + stride, T(0));
      for (int64_t a = 0; a < c.n_basis_columns; ++a) {
        T* row = constant + (1 + a) * stride;
        const T* x = x_ + c.columns[a] * n_ + begin;
        SB_SIMD
        for (int64_t i = 0; i < n; ++i) row[i] = constant[i] * x[i];
        std::fill(row + n, row + stride, T(0));
      }
    }
    for (int64_t o = 0; o < n_outputs_; ++o) {
      T* row = block.target.data() + o * stride;
      const T* r = target_ + o * n_ + begin;
      for (int64_t i = 0; i < n; ++i) row[i] = r[i] * root_weight(begin + i);
      std::fill(row + n, row + stride, T(0));
    }
  }

  // gram_ and cross_ of the first n_rows rows; keeps the block if there is only one
  void gram(const Candidate& c, double sharpness, int64_t n_rows) {
    const int64_t p = n_basis(c), n_blocks = block_count(n_rows), size = p * p + n_outputs_ * p;
    partial_.assign(static_cast<size_t>(size * n_blocks), 0.0);
    auto accumulate = [&](int64_t b, Block& block) {
      const int64_t begin = b * kBlockRows, n = std::min(kBlockRows, n_rows - begin);
      fill_block(c, sharpness, begin, n, block);
      double* g = partial_.data() + b * size;
      accumulate_gram(block.basis.data(), block.target.data(), p, n_outputs_, round_up(n, 16), n, g, g + p * p);
    };
    if (n_blocks == 1) {
      accumulate(0, block_);
    } else {
      parallel_for(
          n_blocks, n_threads_,
          [&](int64_t b) {
            Block block;
            accumulate(b, block);
          },
          interrupt_);
      for (int64_t b = 1; b < n_blocks; ++b)
        for (int64_t j = 0; j < size; ++j) partial_[j] += partial_[b * size + j];
    }
  }

  void solve(const Candidate& c, double ridge) {
    const int64_t p = n_basis(c);
    cholesky_.compute(partial_.data(), p, ridge, interrupt_);
    coefficients_.resize(static_cast<size_t>(n_outputs_ * p));
    for (int64_t o = 0; o < n_outputs_; ++o)
      cholesky_.solve(partial_.data() + p * p + o * p, coefficients_.data() + o * p);
  }

  void try_ridge(const Candidate& c, double sharpness, double ridge, int64_t n_rows, const Candidate*& best,
                 double& best_sharpness, double& best_ridge, double& best_error) {
    solve(c, ridge);
    cholesky_.invert();
    const int64_t n_blocks = block_count(n_rows);
    errors_.assign(static_cast<size_t>(n_blocks), 0.0);
    auto measure = [&](int64_t b, Block& block, std::vector<T>& buffer) {
      const int64_t begin = b * kBlockRows, n = std::min(kBlockRows, n_rows - begin);
      errors_[b] = leave_one_out(block.basis.data(), block.target.data(), weight_ ? weight_ + begin : nullptr,
                                 cholesky_, coefficients_.data(), n_basis(c), n_outputs_, round_up(n, 16), n, buffer);
    };
    if (n_blocks == 1) {
      measure(0, block_, buffer_);
    } else {
      parallel_for(n_blocks, n_threads_, [&](int64_t b) {
        Block block;
        std::vector<T> buffer;
        fill_block(c, sharpness, b * kBlockRows, std::min(kBlockRows, n_rows - b * kBlockRows), block);
        measure(b, block, buffer);
      });
    }
    double error = 0;
    for (double e : errors_) error += e;
    if (error < best_error * (1 - 1e-9) || best_error == std::numeric_limits<double>::infinity()) {
      best = &c;
      best_sharpness = sharpness;
      best_ridge = ridge;
      best_error = error;
    }
  }

  void write(const Candidate& c, double sharpness, TreeArrays<T>& result) {
    const int64_t n_leaves = leaf_count(c.depth), n_used = static_cast<int64_t>(c.columns.size());
    result.depth = c.depth;
    result.columns = c.columns;
    result.gate_weights.assign(static_cast<size_t>((n_leaves - 1) * n_used), T(0));
    result.gate_bias.assign(static_cast<size_t>(n_leaves - 1), static_cast<T>(kClosedGate));
    for (int64_t node = 0; node < n_leaves - 1; ++node) {
      const int32_t j = c.split_column[node];
      if (j < 0) continue;
      const int64_t place = std::find(c.columns.begin(), c.columns.end(), j) - c.columns.begin();
      result.gate_weights[node * n_used + place] = static_cast<T>(sharpness);
      result.gate_bias[node] = static_cast<T>(-sharpness) * c.threshold[node];
      result.gain[j] += c.gain[node];
    }
    const int64_t per_leaf = basis_per_leaf(c), p = n_basis(c);
    result.leaf_values.resize(static_cast<size_t>(n_leaves * n_outputs_));
    if (options_.linear_leaves) result.leaf_weights.resize(static_cast<size_t>(n_leaves * n_outputs_ * n_used));
    for (int64_t leaf = 0; leaf < n_leaves; ++leaf)
      for (int64_t o = 0; o < n_outputs_; ++o) {
        const double* g = coefficients_.data() + o * p + leaf * per_leaf;
        result.leaf_values[leaf * n_outputs_ + o] = static_cast<T>(g[0]);
        for (int64_t a = 0; a < c.n_basis_columns; ++a)
          result.leaf_weights[(leaf * n_outputs_ + o) * n_used + a] = static_cast<T>(g[1 + a]);
      }
    result.output.resize(static_cast<size_t>(n_outputs_ * n_));
    // gather the few columns of this tree into z, so that the tree is dense on z
    std::vector<T> z(static_cast<size_t>(n_used * n_));
    for (int64_t a = 0; a < n_used; ++a) std::copy_n(x_ + c.columns[a] * n_, n_, z.data() + a * n_);
    const TreeView<const T> tree{c.depth,
                                 n_used,
                                 n_outputs_,
                                 result.gate_weights.data(),
                                 result.gate_bias.data(),
                                 result.leaf_values.data(),
                                 options_.linear_leaves ? result.leaf_weights.data() : nullptr};
    tree_output(tree, z.data(), n_, n_threads_, result.output.data());
  }

  const T* x_;
  BinnedColumns<T> binned_;
  const T* weight_;
  int64_t n_, n_columns_, n_outputs_;
  GreedySettings options_;
  int n_threads_;
  Interrupt* interrupt_;
  TreeGrower<T> grower_;
  const T* target_ = nullptr;
  std::vector<T> root_weight_, detrended_, buffer_;
  std::vector<int32_t> ranked_;
  std::vector<double> partial_, coefficients_, errors_;
  Cholesky cholesky_;
  Block block_;
};

// Algorithm 1 for squared error without a transform: each tree is fitted to the residual. The prediction, initially
// y_hat_0, is updated in place. Each operation is a separate loop, so that the compiler does not contract operations
// and the result is bitwise identical to the loop in NumPy.
template <typename T>
std::vector<TreeArrays<T>> boost_greedy(GreedyFitter<T>& fitter, const T* y, int64_t size, int n_rounds,
                                        T learning_rate, T* prediction) {
  std::vector<TreeArrays<T>> trees;
  std::vector<T> residual(static_cast<size_t>(size));
  for (int round = 0; round < n_rounds; ++round) {
    for (int64_t i = 0; i < size; ++i) residual[i] = y[i] - prediction[i];
    TreeArrays<T> tree = fitter.fit(residual.data());
    if (tree.output.empty()) break;  // interrupted
    for (T& value : tree.output) value *= learning_rate;
    for (int64_t i = 0; i < size; ++i) prediction[i] += tree.output[i];
    std::vector<T>().swap(tree.output);  // with many rows and rounds, outputs would take most of the memory
    trees.push_back(std::move(tree));
  }
  return trees;
}

}  // namespace SB_ISA
}  // namespace softboost
