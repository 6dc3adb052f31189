// A soft tree from a greedy tree: grow a hard tree, soften its splits and solve the leaves in closed form. The depth,
// the sharpness and the ridge penalty minimise the exact leave-one-out error.
#pragma once

#include <limits>

#include "grow.hpp"
#include "refit.hpp"
#include "soft_tree.hpp"
#include "solve.hpp"

namespace softboost {
namespace SB_ISA {

constexpr int64_t kMaxBasis = 1024;       // maximum number of coefficients of the leaves of one tree
constexpr int64_t kKeptValues = 1 << 17;  // of the basis functions of all rows, which are computed once if they are few
constexpr double kClosedGate = -64.0;     // logit of a node without a split: all but 1e-28 goes left

template <typename T>
class GreedyFitter {
 public:
  GreedyFitter(const T* columns, const BinnedColumns<T>& binned, const T* weight, int64_t n_outputs,
               const GreedySettings& options, int n_threads, Interrupt* interrupt)
      : x_(columns), binned_(binned), weight_(weight), n_(binned.n_samples), n_columns_(binned.n_columns),
        n_outputs_(n_outputs), options_(options), n_threads_(n_threads), interrupt_(interrupt),
        grower_(binned, weight, n_outputs, options.depth, n_threads, interrupt),
        candidates_(static_cast<size_t>(2 * options.depth)) {
    if (weight_) {
      root_weight_.resize(static_cast<size_t>(n_));
      for (int64_t i = 0; i < n_; ++i) root_weight_[i] = std::sqrt(weight_[i]);
    }
  }

  // The arrays of `result` are used again; its output stays empty if the fit is interrupted.
  void fit(const T* target, TreeArrays<T>& result) {
    target_ = target;
    result.output.clear();
    result.gain.assign(static_cast<size_t>(n_columns_), 0.0);
    if (options_.n_extra_columns > 0 || options_.detrended_candidate) rank_columns();

    if (options_.detrended_candidate) detrend(std::min<int64_t>(4, n_columns_));
    grower_.begin(target, options_.detrended_candidate ? detrended_.data() : nullptr);
    n_candidates_ = 0;
    for (int which = 0; which < (options_.detrended_candidate ? 2 : 1); ++which)
      add_candidates(grower_.grow(which, options_.depth, options_.min_leaf_weight));
    const std::vector<double>&sharpness = options_.sharpness, &ridge = options_.ridge;
    const int64_t n_selection = std::min(n_, options_.n_selection_rows);
    const bool choose = n_candidates_ > 1 || sharpness.size() > 1 || ridge.size() > 1;
    square_ = choose ? squared_target(n_selection) : 0.0;
    best_ = {&candidates_[0], sharpness[0], ridge[0]};
    best_error_ = std::numeric_limits<double>::infinity();
    if (choose) {
      // one after the other: the splits at a middle sharpness, the sharpness of the best, the splits once more at
      // that sharpness, and the ridge penalty
      const double middle = sharpness[(sharpness.size() - 1) / 2];
      try_splits(nullptr, middle, n_selection);
      const Candidate* first = best_.candidate;
      for (double slope : sharpness)
        if (slope != middle) try_shape({first, slope, ridge[0]}, n_selection);
      if (best_.sharpness != middle) try_splits(first, best_.sharpness, n_selection);
      if (interrupted(interrupt_)) return;
      const Candidate* winner = best_.candidate;
      for (size_t k = 1; k < ridge.size(); ++k) try_ridge({winner, best_.sharpness, ridge[k]}, n_selection);
    }
    if (!choose || n_selection < n_) {
      gram(best_, n_, kept_);
      solve(best_, kept_, kept_.coefficients);
    }
    if (interrupted(interrupt_)) return;
    write(*best_.candidate, best_.sharpness, result);
    result.sharpness = best_.sharpness;
    result.ridge = best_.ridge;
    result.leave_one_out = choose ? best_error_ : std::numeric_limits<double>::quiet_NaN();
  }

  // Refits the leaves of a tree of this fitter to a loss.
  void refit(LeafRefitter<T>& refitter, const T* y, const T* raw, TreeArrays<T>& tree) const {
    std::vector<T> z;
    used_columns(tree.columns, z);
    refitter.refit(
        {tree.depth, static_cast<int64_t>(tree.columns.size()), n_outputs_, tree.gate_weights.data(),
         tree.gate_bias.data(), tree.leaf_values.data(), options_.linear_leaves ? tree.leaf_weights.data() : nullptr},
        z.data(), y, raw, tree.output.data());
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

  struct Shape {
    const Candidate* candidate;
    double sharpness, ridge;
  };

  struct Block {
    std::vector<T> right, left, memberships, basis, target, buffer;
  };

  // Moments of the basis functions of a shape, and the coefficients of its leaves.
  struct Fit {
    std::vector<double> moments;  // Gram matrix (n_basis, n_basis), lower triangle, then cross products
    std::vector<double> coefficients;
    std::vector<Block> blocks;  // of all rows if they are few, else empty
  };

  T root_weight(int64_t i) const { return weight_ ? root_weight_[i] : T(1); }
  int64_t basis_per_leaf(const Candidate& c) const { return 1 + c.n_basis_columns; }
  int64_t n_basis(const Candidate& c) const { return leaf_count(c.depth) * basis_per_leaf(c); }

  // columns by decreasing |x'Wr|, summed over outputs; ties are in column order
  void rank_columns() {
    score_.assign(static_cast<size_t>(n_columns_), 0.0);
    const std::vector<double>& score = score_;
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
        score_[j] += std::abs(sum);
      }
    ranked_.resize(static_cast<size_t>(n_columns_));
    for (int64_t j = 0; j < n_columns_; ++j) ranked_[j] = static_cast<int32_t>(j);
    std::sort(ranked_.begin(), ranked_.end(),
              [&](int32_t a, int32_t b) { return score[a] != score[b] ? score[a] > score[b] : a < b; });
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
    const Shape shape{&linear, 1.0, 1.0};
    gram(shape, n_, trial_);
    solve(shape, trial_, trial_.coefficients);
    detrended_.resize(static_cast<size_t>(n_outputs_ * n_));
    for (int64_t o = 0; o < n_outputs_; ++o) {
      T* out = detrended_.data() + o * n_;
      const double* g = trial_.coefficients.data() + o * (1 + k);
      for (int64_t i = 0; i < n_; ++i) out[i] = target_[o * n_ + i] - static_cast<T>(g[0]);
      for (int64_t a = 0; a < k; ++a) axpy(static_cast<T>(-g[1 + a]), x_ + linear.columns[a] * n_, out, n_);
    }
  }

  void add_candidates(const SplitTree& grown) {
    for (int depth = options_.shallower ? 1 : options_.depth; depth <= options_.depth; ++depth) {
      Candidate& c = candidates_[n_candidates_];
      c.depth = depth;
      c.split_column.clear();
      c.threshold.clear();
      c.gain.clear();
      c.columns.clear();
      const int64_t n_nodes = leaf_count(depth) - 1;
      for (int64_t node = 0; node < n_nodes; ++node) {
        const int32_t j = grown.column[node];
        c.split_column.push_back(j);
        c.threshold.push_back(j >= 0 ? binned_.threshold[j * kMaxBins + grown.bin[node]] : T(0));
        c.gain.push_back(grown.gain[node]);
        if (j >= 0 && std::find(c.columns.begin(), c.columns.end(), j) == c.columns.end()) c.columns.push_back(j);
      }
      const bool known = std::any_of(candidates_.begin(), candidates_.begin() + n_candidates_, [&](const Candidate& o) {
        return o.split_column == c.split_column && o.threshold == c.threshold;
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
      ++n_candidates_;
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

  // moments of the first n_rows rows; keeps the blocks if they are small
  void gram(const Shape& shape, int64_t n_rows, Fit& fit) {
    const Candidate& c = *shape.candidate;
    const int64_t p = n_basis(c), n_blocks = block_count(n_rows), size = p * p + n_outputs_ * p;
    fit.moments.assign(static_cast<size_t>(size * n_blocks), 0.0);
    const bool keep = p * n_rows <= kKeptValues;
    fit.blocks.resize(static_cast<size_t>(keep ? n_blocks : 0));
    each_block(n_rows, fit, [&](int64_t b, int64_t n, Block& block) {
      fill_block(c, shape.sharpness, b * kBlockRows, n, block);
      double* g = fit.moments.data() + b * size;
      accumulate_gram(block.basis.data(), block.target.data(), p, n_outputs_, round_up(n, 16), n, g, g + p * p);
    });
    for (int64_t b = 1; b < n_blocks; ++b)
      for (int64_t j = 0; j < size; ++j) fit.moments[j] += fit.moments[b * size + j];
  }

  // Calls work(b, n, block) for each block of n rows, with its kept block or scratch memory.
  template <typename Work>
  void each_block(int64_t n_rows, Fit& fit, Work work) {
    parallel_for(
        block_count(n_rows), n_threads_,
        [&](int64_t b) {
          Block scratch;
          work(b, std::min(kBlockRows, n_rows - b * kBlockRows), fit.blocks.empty() ? scratch : fit.blocks[b]);
        },
        interrupt_);
  }

  // coefficients of the leaves, and the inverse of the Cholesky factor for leave-one-out errors
  void solve(const Shape& shape, const Fit& fit, std::vector<double>& coefficients) {
    const int64_t p = n_basis(*shape.candidate);
    cholesky_.compute(fit.moments.data(), p, shape.ridge, interrupt_, fit.moments.data() + p * p, n_outputs_);
    cholesky_.invert();
    coefficients.resize(static_cast<size_t>(n_outputs_ * p));
    cholesky_.solve_all(coefficients.data());
  }

  // weighted sum of the squared target of the first rows
  double squared_target(int64_t n_rows) const {
    double sum = 0;
    for (int64_t o = 0; o < n_outputs_; ++o)
      for (int64_t i = 0; i < n_rows; ++i) {
        const double r = static_cast<double>(target_[o * n_ + i] * root_weight(i));
        sum += r * r;
      }
    return sum;
  }

  // Whether the squared error on the rows themselves, which the leave-one-out error exceeds, is larger than the best
  // leave-one-out error so far. With (G + ridge I) g = c it is |r|^2 - g'c - ridge |g|^2, up to rounding.
  bool is_hopeless(const Shape& shape, const Fit& fit, const std::vector<double>& coefficients) const {
    const int64_t p = n_basis(*shape.candidate), size = n_outputs_ * p;
    const double* g = coefficients.data();
    const double explained = dot(g, fit.moments.data() + p * p, size) + shape.ridge * dot(g, g, size);
    const double margin = sizeof(T) == 8 ? 1e-6 : 1e-3;  // of rounding
    return square_ * (1 - margin) - explained > best_error_;
  }

  // Leave-one-out error of a shape with the moments of `fit`, or infinity if it is not the best; also gives its
  // coefficients.
  double error_of(const Shape& shape, int64_t n_rows, Fit& fit, std::vector<double>& coefficients) {
    solve(shape, fit, coefficients);
    if (is_hopeless(shape, fit, coefficients)) return std::numeric_limits<double>::infinity();
    const Candidate& c = *shape.candidate;
    errors_.assign(static_cast<size_t>(block_count(n_rows)), 0.0);
    each_block(n_rows, fit, [&](int64_t b, int64_t n, Block& block) {
      const int64_t begin = b * kBlockRows;
      if (fit.blocks.empty()) fill_block(c, shape.sharpness, begin, n, block);
      errors_[b] =
          leave_one_out(block.basis.data(), block.target.data(), weight_ ? weight_ + begin : nullptr, cholesky_,
                        coefficients.data(), n_basis(c), n_outputs_, round_up(n, 16), n, block.buffer);
    });
    double error = 0;
    for (double e : errors_) error += e;
    return error;
  }

  bool is_better(const Shape& shape, double error) {
    if (!(error < best_error_ * (1 - 1e-9)) && best_error_ != std::numeric_limits<double>::infinity()) return false;
    best_ = shape;
    best_error_ = error;
    return true;
  }

  void try_splits(const Candidate* known, double sharpness, int64_t n_rows) {
    for (size_t k = 0; k < n_candidates_; ++k)
      if (&candidates_[k] != known && !interrupted(interrupt_))
        try_shape({&candidates_[k], sharpness, options_.ridge[0]}, n_rows);
  }

  void try_shape(const Shape& shape, int64_t n_rows) {
    gram(shape, n_rows, trial_);
    if (is_better(shape, error_of(shape, n_rows, trial_, trial_.coefficients))) std::swap(trial_, kept_);
  }

  // another penalty for the best shape, which has the same moments
  void try_ridge(const Shape& shape, int64_t n_rows) {
    if (is_better(shape, error_of(shape, n_rows, kept_, trial_.coefficients)))
      std::swap(trial_.coefficients, kept_.coefficients);
  }

  // the few columns of a tree, so that the tree is dense on them
  void used_columns(const std::vector<int32_t>& columns, std::vector<T>& z) const {
    z.clear();
    for (int32_t j : columns) z.insert(z.end(), x_ + j * n_, x_ + (j + 1) * n_);
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
        const double* g = kept_.coefficients.data() + o * p + leaf * per_leaf;
        result.leaf_values[leaf * n_outputs_ + o] = static_cast<T>(g[0]);
        for (int64_t a = 0; a < c.n_basis_columns; ++a)
          result.leaf_weights[(leaf * n_outputs_ + o) * n_used + a] = static_cast<T>(g[1 + a]);
      }
    result.output.resize(static_cast<size_t>(n_outputs_ * n_));
    used_columns(c.columns, used_);
    const TreeView<const T> tree{c.depth,
                                 n_used,
                                 n_outputs_,
                                 result.gate_weights.data(),
                                 result.gate_bias.data(),
                                 result.leaf_values.data(),
                                 options_.linear_leaves ? result.leaf_weights.data() : nullptr};
    tree_output(tree, used_.data(), n_, n_threads_, result.output.data(), &scratch_);
  }

  const T* x_;
  BinnedColumns<T> binned_;
  const T* weight_;
  int64_t n_, n_columns_, n_outputs_;
  GreedySettings options_;
  int n_threads_;
  Interrupt* interrupt_;
  TreeGrower<T> grower_;
  std::vector<Candidate> candidates_;  // the first n_candidates_ are those of the tree; all are used again
  size_t n_candidates_ = 0;
  const T* target_ = nullptr;
  std::vector<T> root_weight_, detrended_;
  std::vector<int32_t> ranked_;
  std::vector<double> errors_, score_;
  Cholesky cholesky_;
  Shape best_{};
  double best_error_ = 0, square_ = 0;
  Fit trial_, kept_;
  std::vector<T> used_;
  OutputScratch<T> scratch_;
};

// Algorithm 1 without a transform: each tree is fitted to the negative gradient of the loss, and its leaves to the
// loss. The prediction, initially y_hat_0, is updated in place. Each operation is a separate loop, so that the compiler
// does not contract operations and the result is bitwise identical to the loop in Python.
template <typename T>
void boost_greedy(GreedyFitter<T>& fitter, LeafRefitter<T>& refitter, const LossSettings& loss, const T* y,
                  int64_t size, int n_rounds, T learning_rate, T* prediction, FlatTrees<T>& out) {
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  TreeArrays<T> tree;
  std::vector<T> residual(static_cast<size_t>(size));
  for (int round = 0; round < n_rounds; ++round) {
    refitter.loss().gradient(y, prediction, residual.data());
    for (T& value : residual) value = -value;
    fitter.fit(residual.data(), tree);
    if (tree.output.empty()) break;  // interrupted
    if (loss.refit_leaves) fitter.refit(refitter, y, prediction, tree);
    for (T& value : tree.output) value *= learning_rate;
    for (int64_t i = 0; i < size; ++i) prediction[i] += tree.output[i];
    out.depth.push_back(tree.depth);
    out.n_columns.push_back(static_cast<int64_t>(tree.columns.size()));
    append(out.columns, tree.columns);
    append(out.gate_weights, tree.gate_weights);
    append(out.gate_bias, tree.gate_bias);
    append(out.leaf, tree.leaf_values);
    append(out.leaf, tree.leaf_weights);
  }
}

}  // namespace SB_ISA
}  // namespace softboost
