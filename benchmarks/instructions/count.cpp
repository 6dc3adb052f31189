// Runs one kernel on made-up data, for callgrind to count its instructions: count NAME
#include <cstdio>
#include <cstring>
#include <string>

#include "../../src/cpp/kernels.hpp"

using namespace softboost;

namespace {

constexpr int64_t kRows = 100, kColumns = 50;

// numbers that are the same everywhere
struct Numbers {
  uint64_t state = 88172645463325252ull;
  double next() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<double>(state >> 11) / 9007199254740992.0 * 2 - 1;
  }
  std::vector<double> many(int64_t n, double size = 1.0) {
    std::vector<double> out(static_cast<size_t>(n));
    for (double& v : out) v = size * next();
    return out;
  }
};

struct Data {
  Numbers numbers;
  std::vector<double> x, y;
  std::vector<uint8_t> bins;
  std::vector<int32_t> count;
  std::vector<double> threshold;
  std::vector<int32_t> order;

  explicit Data(int64_t rows) : x(numbers.many(kColumns * rows)), y(numbers.many(rows, 0.3)) {
    for (int64_t i = 0; i < rows; ++i) y[i] += x[i] + x[rows + i] * x[2 * rows + i];
    bins.resize(x.size());
    count.resize(kColumns);
    threshold.resize(kColumns * kMaxBins);
    order.resize(x.size());
  }
  BinnedColumns<double> view(int64_t rows) const {
    return {bins.data(), count.data(), threshold.data(), order.data(), kColumns, rows};
  }
};

const Kernels<double>& kernels() { return avx2::kernel_table().f64; }

}  // namespace

// Only what happens inside this function is counted.
extern "C" __attribute__((noinline)) void counted(void (*work)(void*), void* data) { work(data); }

template <typename Work>
void count(Work work) {
  counted([](void* data) { (*static_cast<Work*>(data))(); }, &work);
}

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  Data data(kRows);
  auto bin = [&] {
    kernels().bin_columns(data.x.data(), nullptr, kColumns, kRows, kMaxBins, 1, nullptr, data.bins.data(),
                          data.count.data(), data.threshold.data(), data.order.data());
  };
  if (name == "bin_columns") {
    count(bin);
  } else if (name == "fit_greedy") {
    bin();
    GreedySettings settings;
    settings.shallower = settings.linear_leaves = settings.detrended_candidate = true;
    settings.n_extra_columns = 2;
    settings.sharpness = {1, 3, 8, 25};
    settings.ridge = {1, 0.1, 10};
    TreeArrays<double> tree;
    count([&] {
      kernels().fit_greedy(data.x.data(), data.view(kRows), data.y.data(), nullptr, 1, settings, 1, nullptr, tree);
    });
  } else if (name == "boost_greedy") {
    bin();
    GreedySettings settings;
    settings.linear_leaves = true;
    settings.sharpness = {4};
    std::vector<double> prediction(kRows);
    FlatTrees<double> trees;
    count([&] {
      kernels().boost_greedy(data.x.data(), data.view(kRows), data.y.data(), nullptr, 1, settings, LossSettings{}, 20,
                             0.3, 1, nullptr, prediction.data(), trees);
    });
  } else if (name == "fit_joint" || name == "fit_joint_q") {
    const int depth = 3;
    JointSettings settings;
    settings.n_steps = 20;
    settings.transform = name == "fit_joint" ? TransformKind::identity : TransformKind::linear;
    std::vector<double> q(kColumns * kColumns), weights = data.numbers.many(7 * kColumns, 0.1);
    for (int64_t j = 0; j < kColumns; ++j) q[j * kColumns + j] = 1;
    std::vector<double> bias = data.numbers.many(7, 0.1), leaves = data.numbers.many(8, 0.1), output(kRows), trace(21);
    const TreeView<double> tree{depth, kColumns, 1, weights.data(), bias.data(), leaves.data(), nullptr};
    count([&] {
      kernels().fit_joint(data.x.data(), data.y.data(), nullptr, kColumns, kRows, settings, 1, nullptr, tree, q.data(),
                          output.data(), trace.data());
    });
  } else if (name == "predict") {
    const int64_t n_trees = 100, rows = 256, per_tree = 4;
    std::vector<double> offset(kColumns), scale(kColumns, 1.0), low(kColumns, -1e18), high(kColumns, 1e18),
        intercept(1), coefficients = data.numbers.many(kColumns);
    std::vector<int32_t> depth(n_trees, 2), columns;
    std::vector<uint8_t> linear(n_trees, 1);
    std::vector<int64_t> column_start, weight_start, bias_start, leaf_start;
    for (int64_t k = 0; k <= n_trees; ++k) {
      column_start.push_back(k * per_tree);
      weight_start.push_back(k * 3 * per_tree);
      bias_start.push_back(k * 3);
      leaf_start.push_back(k * 4 * (1 + per_tree));
      for (int64_t c = 0; c < per_tree; ++c) columns.push_back(static_cast<int32_t>((7 * k + 11 * c) % kColumns));
    }
    std::vector<double> gates(n_trees * 3 * per_tree), bias = data.numbers.many(n_trees * 3);
    for (int64_t node = 0; node < n_trees * 3; ++node) gates[node * per_tree + node % per_tree] = 3;
    std::vector<double> leaf = data.numbers.many(n_trees * 4 * (1 + per_tree)), x = data.numbers.many(rows * kColumns);
    std::vector<double> out(rows);
    const Ensemble<double> e{kColumns,
                             1,
                             n_trees,
                             offset.data(),
                             scale.data(),
                             low.data(),
                             high.data(),
                             intercept.data(),
                             coefficients.data(),
                             depth.data(),
                             linear.data(),
                             column_start.data(),
                             columns.data(),
                             weight_start.data(),
                             gates.data(),
                             bias_start.data(),
                             bias.data(),
                             leaf_start.data(),
                             leaf.data()};
    count([&] { kernels().predict(e, x.data(), rows, 1, out.data()); });
  } else if (name == "linear_models") {
    std::vector<double> mean_x(kColumns), mean_y(1), gram(kColumns * kColumns), cross(kColumns), penalties(30);
    std::vector<double> determinants(30), ridge(30 * kColumns), lasso(30 * kColumns), relaxed(30 * kColumns);
    for (size_t l = 0; l < penalties.size(); ++l) penalties[l] = 100.0 / static_cast<double>(1 << (l / 2));
    const KernelTable& table = avx2::kernel_table();
    count([&] {
      kernels().weighted_means(data.x.data(), nullptr, kColumns, kRows, 1, mean_x.data());
      kernels().weighted_means(data.y.data(), nullptr, 1, kRows, 1, mean_y.data());
      kernels().moments(data.x.data(), data.y.data(), nullptr, kColumns, 1, kRows, mean_x.data(), mean_y.data(), 1,
                        nullptr, gram.data(), cross.data());
      table.ridge_path(gram.data(), cross.data(), kColumns, 1, penalties.data(), 30, nullptr, ridge.data(),
                       determinants.data());
      table.lasso_path(gram.data(), cross.data(), kColumns, penalties.data(), 30, 1e-5, 300, lasso.data());
      table.relaxed_path(gram.data(), cross.data(), kColumns, lasso.data(), 30, 50.0, 1e-3, relaxed.data());
    });
  } else {
    std::fprintf(stderr, "unknown kernel '%s'\n", name.c_str());
    return 2;
  }
  return 0;
}
