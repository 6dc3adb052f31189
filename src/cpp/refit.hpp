// Leaves that minimise a loss with the gates held fixed, by a few Newton steps on a quadratic approximation.
//
// A tree fitted to the sign of an error (absolute error, quantile) or to a gradient in units of counts (Poisson) has
// the right direction but not the right step length.
#pragma once

#include "losses.hpp"
#include "soft_tree.hpp"
#include "solve.hpp"

namespace softboost {
namespace SB_ISA {

constexpr int kRefitSteps = 4;
constexpr double kRefitRidge = 1.0;

template <typename T>
class LeafRefitter {
 public:
  LeafRefitter(const LossSettings& loss, const T* weight, int64_t n_outputs, int64_t n_samples, int n_threads,
               Interrupt* interrupt)
      : loss_(loss, weight, n_outputs, n_samples), weight_(weight), n_outputs_(n_outputs), n_(n_samples),
        n_threads_(n_threads), interrupt_(interrupt) {}

  const LossFunction<T>& loss() const { return loss_; }

  // Replaces leaf_values and leaf_weights of the tree and writes its output (n_outputs, n_samples); z is
  // (n_components, n_samples), raw the prediction to which the output will be added.
  void refit(const TreeView<T>& tree, const T* z, const T* y, const T* raw, T* output) {
    const int64_t m = tree.leaf_weights ? tree.n_components : 0, n_leaves = leaf_count(tree);
    per_leaf_ = 1 + m;
    n_basis_ = n_leaves * per_leaf_;
    n_blocks_ = block_count(n_);
    fill_basis(tree, z);
    const int64_t size = n_outputs_ * n_, n_moments = n_basis_ * (n_basis_ + 1);
    at_.resize(static_cast<size_t>(size));
    gradient_.resize(at_.size());
    curvature_.resize(at_.size());
    coefficients_.assign(static_cast<size_t>(n_outputs_ * n_basis_), 0.0);
    moments_.resize(static_cast<size_t>(n_blocks_ * n_moments));
    std::fill_n(output, size, T(0));
    for (int step = 0; step < kRefitSteps; ++step) {
      if (interrupted(interrupt_)) return;
      for (int64_t i = 0; i < size; ++i) at_[i] = raw[i] + output[i];
      loss_.quadratic(y, at_.data(), gradient_.data(), curvature_.data());
      // the ridge penalty assumes a mean curvature of one
      const double typical = std::max(loss_.weighted_mean(curvature_.data()), 1e-300);
      for (int64_t o = 0; o < n_outputs_; ++o) {
        solve(o, typical, output + o * n_);
        write_output(o, output + o * n_);
      }
    }
    for (int64_t leaf = 0; leaf < n_leaves; ++leaf)
      for (int64_t o = 0; o < n_outputs_; ++o) {
        const double* g = coefficients_.data() + o * n_basis_ + leaf * per_leaf_;
        tree.leaf_values[leaf * n_outputs_ + o] = static_cast<T>(g[0]);
        for (int64_t a = 0; a < m; ++a) tree.leaf_weights[(leaf * n_outputs_ + o) * m + a] = static_cast<T>(g[1 + a]);
      }
  }

 private:
  // basis_: for each block of rows (n_basis, stride), leaf probabilities times [1, z]
  void fill_basis(const TreeView<T>& tree, const T* z) {
    const TreeView<const T> view{tree.depth,     tree.n_components, tree.n_outputs,   tree.gate_weights,
                                 tree.gate_bias, tree.leaf_values,  tree.leaf_weights};
    basis_.resize(static_cast<size_t>(n_basis_ * n_blocks_ * kBlockRows));
    parallel_for(
        n_blocks_, n_threads_,
        [&](int64_t b) {
          const int64_t begin = b * kBlockRows, n = std::min(kBlockRows, n_ - begin);
          TreeBlock<T> block(tree.depth, n);
          block.forward(view, z + begin, n_, n);
          for (int64_t leaf = 0; leaf < leaf_count(tree); ++leaf) {
            const T* reach = block.memberships.data() + leaf * block.stride;
            T* rows = basis_.data() + (b * n_basis_ + leaf * per_leaf_) * kBlockRows;
            std::copy_n(reach, n, rows);
            for (int64_t a = 0; a + 1 < per_leaf_; ++a) {
              const T* x = z + a * n_ + begin;
              T* row = rows + (1 + a) * kBlockRows;
              SB_SIMD
              for (int64_t i = 0; i < n; ++i) row[i] = reach[i] * x[i];
            }
          }
        },
        interrupt_);
  }

  // coefficients_ of output o: weighted ridge regression of the Newton step's goal on the basis
  void solve(int64_t o, double typical, const T* output) {
    const int64_t n_moments = n_basis_ * (n_basis_ + 1);
    std::fill(moments_.begin(), moments_.end(), 0.0);
    parallel_for(
        n_blocks_, n_threads_,
        [&](int64_t b) {
          const int64_t begin = b * kBlockRows, n = std::min(kBlockRows, n_ - begin), stride = round_up(n, 16);
          std::vector<T> scratch(static_cast<size_t>((n_basis_ + 2) * stride), T(0));
          T *weighted = scratch.data(), *root = weighted + n_basis_ * stride, *goal = root + stride;
          const T *gradient = gradient_.data() + o * n_ + begin, *curvature = curvature_.data() + o * n_ + begin;
          for (int64_t i = 0; i < n; ++i) {
            const T w = weight_ ? weight_[begin + i] : T(1);
            root[i] = std::sqrt(w * curvature[i] / static_cast<T>(typical));
            goal[i] = root[i] * (output[begin + i] - gradient[i] / curvature[i]);
          }
          for (int64_t p = 0; p < n_basis_; ++p) {
            const T* from = basis_.data() + (b * n_basis_ + p) * kBlockRows;
            T* to = weighted + p * stride;
            SB_SIMD
            for (int64_t i = 0; i < n; ++i) to[i] = root[i] * from[i];
          }
          double* g = moments_.data() + b * n_moments;
          accumulate_gram(weighted, goal, n_basis_, 1, stride, n, g, g + n_basis_ * n_basis_);
        },
        interrupt_);
    for (int64_t b = 1; b < n_blocks_; ++b) axpy(1.0, moments_.data() + b * n_moments, moments_.data(), n_moments);
    cholesky_.compute(moments_.data(), n_basis_, kRefitRidge, interrupt_);
    cholesky_.solve(moments_.data() + n_basis_ * n_basis_, coefficients_.data() + o * n_basis_);
  }

  void write_output(int64_t o, T* output) const {
    parallel_for(
        n_blocks_, n_threads_,
        [&](int64_t b) {
          const int64_t begin = b * kBlockRows, n = std::min(kBlockRows, n_ - begin);
          std::fill_n(output + begin, n, T(0));
          for (int64_t p = 0; p < n_basis_; ++p)
            axpy(static_cast<T>(coefficients_[o * n_basis_ + p]), basis_.data() + (b * n_basis_ + p) * kBlockRows,
                 output + begin, n);
        },
        interrupt_);
  }

  LossFunction<T> loss_;
  const T* weight_;
  int64_t n_outputs_, n_, per_leaf_ = 1, n_basis_ = 0, n_blocks_ = 0;
  int n_threads_;
  Interrupt* interrupt_;
  std::vector<T> basis_, at_, gradient_, curvature_;
  std::vector<double> moments_, coefficients_;
  Cholesky cholesky_;
};

}  // namespace SB_ISA
}  // namespace softboost
