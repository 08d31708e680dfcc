#include "soup/soups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <fstream>

#include "checkpoints/snapshot.h"
#include "models/network.h"
#include "soup/held_out_loss.h"
#include "soup/hull_space.h"
#include "support/errors.h"
#include "tests/tools/steep_network.h"
#include "tests/tools/streamed_toy.h"
#include "tests/tools/temporary_folder.h"
#include "tests/tools/toy_setup.h"
#include "training/input/batches.h"
#include "training/state.h"
#include "training/weights/named_weights.h"
#include "training/weights/soup.h"

namespace dimred::soup {
namespace {

namespace fs = std::filesystem;
using Eigen::MatrixXd;
using Eigen::VectorXd;

/// A network of one linear layer 784 -> 10 in evaluation on 96 images, and members around it.
struct Table {
  explicit Table(int count,
                 training::Setup with = training::toy_setup(models::Precision::float32,
                                                            training::steep_network(1)))
      : setup(std::move(with)) {
    setup.data.validation = setup.data.train;
    const torch::NoGradGuard no_grad;
    const auto base = setup.model.flat.weights.clone();
    for (int i = 0; i < count; ++i) {
      torch::manual_seed(100 + i);
      setup.model.flat.weights.copy_(base).add_(torch::randn_like(base), 0.05);
      files.push_back(folder.path() / formatted("member{}.h5", i));
      checkpoints::write_snapshot(files.back(), training::start_snapshot(setup, {})());
    }
    setup.model.flat.weights.copy_(base);
  }

  Soup make(Kind kind, const Options& options = {}) {
    return make_soups(setup, files, {kind}, options, [](const Soup& /*soup*/) {}).front();
  }

  /// Rows in float64, [members x M].
  MatrixXd weights() const {
    std::vector<std::vector<float>> rows;
    for (const auto& file : files) rows.push_back(checkpoints::read_snapshot(file).weights);
    MatrixXd w(rows.size(), rows[0].size());
    for (std::size_t i = 0; i < rows.size(); ++i)
      w.row(static_cast<Eigen::Index>(i)) =
          Eigen::Map<const Eigen::VectorXf>(rows[i].data(), w.cols()).cast<double>();
    return w;
  }

  VectorXd network() const {
    const auto values = models::to_file(setup.model.flat.layout, setup.model.flat.weights);
    return Eigen::Map<const Eigen::VectorXf>(values.data(), std::ssize(values)).cast<double>();
  }

  TemporaryFolder folder;
  training::Setup setup;
  std::vector<fs::path> files;
};

/// Softmax regression on the toy images in float64, and plain BFGS with backtracking, written
/// without the program's.
class DoubleReplay {
 public:
  DoubleReplay(const Table& table, std::vector<layout::ColumnRange> blocks)
      : w_(table.weights()), blocks_(std::move(blocks)), n_(w_.rows()) {
    const data::Order order{.seed = 0, .size = 96};
    auto batches = training::make_batches(table.setup,
                                          *table.setup.data.train,
                                          order,
                                          table.setup.data.preprocessing,
                                          training::loader_options(table.setup),
                                          0);
    images_.resize(96, 784);
    for (Eigen::Index i = 0; auto batch = batches->next();) {
      const auto x = batch->tensors.images.flatten(1).contiguous();
      for (std::int64_t j = 0; j < x.size(0); ++j, ++i) {
        images_.row(i) =
            Eigen::Map<const Eigen::RowVectorXf>(x[j].const_data_ptr<float>(), 784).cast<double>();
        labels_.push_back(batch->tensors.labels[j].item<std::int64_t>());
      }
      batches->recycle(std::move(*batch));
    }
  }

  MatrixXd coefficients(int steps) {
    const auto e = helmert(n_);
    const auto count = (n_ - 1) * std::ssize(blocks_);
    VectorXd z = VectorXd::Zero(count);
    MatrixXd h = MatrixXd::Identity(count, count);
    VectorXd g;
    double f = value(z, e, &g);
    for (int step = 0; step < steps; ++step) {
      const VectorXd d = -h * g;
      double t = 1;
      while (value(z + t * d, e, nullptr) >= f + 1e-4 * t * g.dot(d)) t /= 2;
      VectorXd next;
      f = value(z + t * d, e, &next);
      const VectorXd s = t * d, y = next - g;
      // By blocks, as the program's H is.
      MatrixXd whole = h;
      for (Eigen::Index b = 0; b < std::ssize(blocks_); ++b) {
        const auto at = b * (n_ - 1);
        const VectorXd sb = s.segment(at, n_ - 1), yb = y.segment(at, n_ - 1);
        if (sb.dot(yb) <= 1e-20) continue;
        const double rb = 1 / sb.dot(yb);
        const MatrixXd lb = MatrixXd::Identity(n_ - 1, n_ - 1) - rb * sb * yb.transpose();
        whole.block(at, at, n_ - 1, n_ - 1) =
            lb * h.block(at, at, n_ - 1, n_ - 1) * lb.transpose() + rb * sb * sb.transpose();
      }
      h = whole;
      z += s;
      g = next;
    }
    return at(z, e);
  }

 private:
  MatrixXd at(const VectorXd& z, const MatrixXd& e) const {
    const MatrixXd steps = e * Eigen::Map<const MatrixXd>(z.data(), n_ - 1, std::ssize(blocks_));
    return steps.array() + 1.0 / static_cast<double>(n_);
  }

  double value(const VectorXd& z, const MatrixXd& e, VectorXd* gradient) const {
    const auto c = at(z, e);
    VectorXd w(w_.cols());
    for (Eigen::Index b = 0; b < std::ssize(blocks_); ++b) {
      const auto& columns = blocks_[static_cast<std::size_t>(b)];
      w.segment(columns.begin, columns.size()) =
          w_.middleCols(columns.begin, columns.size()).transpose() * c.col(b);
    }
    const Eigen::Map<const Eigen::Matrix<double, 10, 784, Eigen::RowMajor>> weight(w.data());
    const Eigen::RowVectorXd bias = w.tail(10);
    MatrixXd scores = images_ * weight.transpose();
    scores.rowwise() += bias;
    scores.colwise() -= scores.rowwise().maxCoeff().eval();
    MatrixXd p = scores.array().exp();
    const VectorXd sums = p.rowwise().sum();
    double loss = 0;
    for (Eigen::Index i = 0; i < 96; ++i) loss += std::log(sums[i]) - scores(i, labels_[i]);
    if (gradient != nullptr) {
      p.array().colwise() /= sums.array();
      for (Eigen::Index i = 0; i < 96; ++i) p(i, labels_[i]) -= 1;
      const Eigen::Matrix<double, 10, 784, Eigen::RowMajor> gw = p.transpose() * images_ / 96;
      VectorXd g(w.size());
      g.head(7840) = Eigen::Map<const VectorXd>(gw.data(), 7840);
      g.tail(10) = p.colwise().sum().transpose() / 96;
      gradient->resize(z.size());
      for (Eigen::Index b = 0; b < std::ssize(blocks_); ++b) {
        const auto& columns = blocks_[static_cast<std::size_t>(b)];
        const VectorXd products =
            w_.middleCols(columns.begin, columns.size()) * g.segment(columns.begin, columns.size());
        gradient->segment(b * (n_ - 1), n_ - 1) = e.transpose() * products;
      }
    }
    return loss / 96;
  }

  MatrixXd w_;
  std::vector<layout::ColumnRange> blocks_;
  Eigen::Index n_;
  MatrixXd images_;
  std::vector<std::int64_t> labels_;
};

TEST(Soups, LearnedCoefficientsAreThoseOfAnIndependentDescentInFloat64) {
  Table table(6);
  for (const auto& [kind, steps] : {std::pair(Kind::learned, 8), {Kind::learned_layers, 4}}) {
    const auto soup = table.make(kind, {.anchor = {}, .steps = steps});
    ASSERT_EQ(soup.steps, steps);
    const auto expected = DoubleReplay(table, soup.blocks).coefficients(steps);
    EXPECT_GT((expected.array() - 1.0 / 6).abs().maxCoeff(), 0.05);  // it has moved
    const double scale = kind == Kind::learned ? 1 : expected.cwiseAbs().maxCoeff();  // 19
    EXPECT_LT((soup.coefficients - expected).cwiseAbs().maxCoeff(), 1e-6 * scale);
  }
}

TEST(Soups, TheNetworkHoldsTheSumOfItsCoefficients) {
  Table table(5);
  const MatrixXd w = table.weights();
  for (const auto& [name, kind] : kind_names()) {
    if (kind == Kind::stock) continue;
    const auto soup = table.make(kind);
    VectorXd expected(w.cols());
    for (Eigen::Index b = 0; b < soup.coefficients.cols(); ++b) {
      const auto& columns = soup.blocks[static_cast<std::size_t>(b)];
      expected.segment(columns.begin, columns.size()) =
          w.middleCols(columns.begin, columns.size()).transpose() * soup.coefficients.col(b);
      EXPECT_NEAR(soup.coefficients.col(b).sum(), 1, 1e-12) << name;
    }
    EXPECT_LT((table.network() - expected).cwiseAbs().maxCoeff(), 1e-6) << name;
    EXPECT_EQ(soup.validation.loss,
              training::evaluate(table.setup, *table.setup.data.validation).loss)
        << name;
  }
}

TEST(Soups, LearnedOnesAreNoWorseThanTheMean) {
  // Dropout and BatchNorm: the statistics of whatever is scored are its own.
  Table table(4, training::toy_setup(models::Precision::float32));
  const auto mean = table.make(Kind::mean);
  const auto learned = table.make(Kind::learned);
  EXPECT_LT(learned.validation.loss, mean.validation.loss);
  EXPECT_GT(learned.backward_images, 0);
  const auto again = table.make(Kind::learned);
  EXPECT_EQ(again.coefficients, learned.coefficients);
  EXPECT_EQ(again.validation.loss, learned.validation.loss);
}

/// Tells the toy's two classes by their brightness, as far as BatchNorm leaves it: in a batch of
/// both.
struct BrightnessNet final : models::Network {
  BrightnessNet() {
    norm = register_module("norm", torch::nn::BatchNorm2d(1));
    fc = register_module("fc", torch::nn::Linear(1, 10));
    const torch::NoGradGuard no_grad;
    fc->weight.zero_()[0] = -20;
    fc->weight[1] = 20;
    fc->bias.zero_().slice(0, 0, 2).fill_(10);
  }
  torch::Tensor forward(torch::Tensor x) override { return fc(norm(x).mean({2, 3})); }
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear fc{nullptr};
};

TEST(HeldOutLoss, OfSamplesThatLieByClassHasBatchesOfAll) {
  auto setup = training::toy_setup(models::Precision::float32, std::make_shared<BrightnessNet>());
  std::vector<std::int64_t> by_class;  // which is the index modulo 2
  for (std::int64_t i = 0; i < 96; ++i) by_class.push_back(i * 2 % 96 + i / 48);
  const auto sorted = data::subset(setup.data.train, by_class);
  EXPECT_LT(HeldOutLoss(setup, *sorted).loss(), 0.05);  // in order: about 0.5
}

TEST(Soups, ModelStockLiesBetweenAnchorAndMeanAsTheAnglesSay) {
  Table table(4);
  const auto anchor = table.folder.path() / "anchor.h5";
  checkpoints::write_snapshot(anchor, training::start_snapshot(table.setup, {})());
  const auto soup = table.make(Kind::stock, {.anchor = anchor});
  const auto start = checkpoints::read_snapshot(anchor).weights;
  const VectorXd w0 =
      Eigen::Map<const Eigen::VectorXf>(start.data(), std::ssize(start)).cast<double>();
  const MatrixXd w = table.weights();
  ASSERT_EQ(soup.blocks.size(), 2U);  // weight and bias
  VectorXd expected(w.cols());
  for (const auto& columns : soup.blocks) {
    const MatrixXd d = (w.rowwise() - w0.transpose()).middleCols(columns.begin, columns.size());
    double cosines = 0;
    for (int i = 0; i < 4; ++i)
      for (int j = i + 1; j < 4; ++j)
        cosines += d.row(i).dot(d.row(j)) / (d.row(i).norm() * d.row(j).norm()) / 6;
    cosines = std::max(cosines, 0.0);
    const double t = 4 * cosines / (1 + 3 * cosines);
    expected.segment(columns.begin, columns.size()) =
        w0.segment(columns.begin, columns.size()) + t * d.colwise().mean().transpose();
  }
  EXPECT_LT((table.network() - expected).cwiseAbs().maxCoeff(), 1e-7);
  EXPECT_DOUBLE_EQ(stock_share(MatrixXd::Ones(5, 5)), 1);      // one direction: the mean
  EXPECT_DOUBLE_EQ(stock_share(MatrixXd::Identity(5, 5)), 0);  // at right angles: the anchor
}

TEST(HeldOutLoss, InRandomOrderNeedsRoomForAllOfAStream) {
  const auto refusal = [](std::int64_t room, const std::shared_ptr<models::Network>& network) {
    auto setup = training::toy_setup(models::Precision::float32, network);
    setup.data.train = std::make_shared<training::StreamedToy>(room);
    try {
      HeldOutLoss(setup, *setup.data.train).loss();
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal(799, std::make_shared<BrightnessNet>()), testing::HasSubstr("room for all"));
  EXPECT_EQ(refusal(800, std::make_shared<BrightnessNet>()), "");
  EXPECT_EQ(refusal(799, training::steep_network(1)), "");  // no BatchNorm: in the files' order
}

TEST(Soups, OfEqualMembersTheLastIsTheBest) {
  Table table(2);
  for (const auto& file : table.files) {  // w and 2 w, right for the same samples
    checkpoints::write_snapshot(file, training::start_snapshot(table.setup, {})());
    const torch::NoGradGuard no_grad;
    table.setup.model.flat.weights.mul_(2);
  }
  EXPECT_EQ(table.make(Kind::best).coefficients, (MatrixXd(2, 1) << 0, 1).finished());
  EXPECT_EQ(table.make(Kind::greedy).coefficients, MatrixXd::Constant(2, 1, 0.5));
}

TEST(Soups, TheGreedyChoiceIsTheRecipes) {
  // Alone 3 and 1 are best; 2 makes the mean worse, 0 leaves it as good.
  std::vector<std::size_t> taken;
  const auto with = [&](std::size_t i) {
    if (taken == std::vector<std::size_t>{3}) return i == 1 ? 0.92 : 0.0;
    return i == 2 ? 0.91 : 0.92;
  };
  training::choose_greedily({0.7, 0.9, 0.8, 0.9}, with, [&](std::size_t i) { taken.push_back(i); });
  EXPECT_EQ(taken, (std::vector<std::size_t>{3, 1, 0}));
}

/// The linear layer's weights [784 x 10, then 10] as another program may have them: bias first.
void write_bias_first(const fs::path& file, std::vector<float> weights) {
  std::ranges::rotate(weights, weights.begin() + 7840);
  const std::string header =
      R"({"fc.bias":{"dtype":"F32","shape":[10],"data_offsets":[0,40]},)"
      R"("fc.weight":{"dtype":"F32","shape":[10,784],"data_offsets":[40,31400]}})";
  const std::uint64_t size = header.size();
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&size), sizeof(size));
  out << header;
  out.write(reinterpret_cast<const char*>(weights.data()),
            static_cast<std::streamsize>(weights.size() * sizeof(float)));
}

TEST(Members, OfFilesInAnotherOrderAreFoundByName) {
  Table table(3);
  const auto expected = table.make(Kind::mean);
  const VectorXd mean = table.network();
  for (auto& file : table.files) {
    const auto other = fs::path(file).replace_extension(".safetensors");
    write_bias_first(other, checkpoints::read_snapshot(file).weights);
    file = other;
  }
  const Members members(table.files, table.setup.model.flat.layout);
  EXPECT_NE(members.layers().front().begin, 0);  // fc.bias comes first there
  const auto soup = table.make(Kind::mean);
  EXPECT_LT((table.network() - mean).cwiseAbs().maxCoeff(), 1e-7);
  EXPECT_EQ(soup.validation.loss, expected.validation.loss);
  EXPECT_LT((table.make(Kind::learned).validation.loss), expected.validation.loss);
}

template <class Work>
std::string message_of(const Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Members, ThatCannotBeAveragedAreNamed) {
  using testing::HasSubstr;
  Table table(3);
  const auto make = [&] { table.make(Kind::mean); };
  auto files = table.files;
  table.files = {files[0], files[1], files[0]};
  EXPECT_THAT(message_of(make), HasSubstr("member0.h5 twice"));
  const auto copy = table.folder.path() / "copy.h5";
  fs::copy_file(files[0], copy);
  table.files = {files[0], files[1], copy};
  EXPECT_THAT(message_of(make), HasSubstr("copy.h5 holds the weights of"));
  table.files = {files[0]};
  EXPECT_THAT(message_of(make), HasSubstr("two members or more, received 1"));

  auto other = training::toy_setup(models::Precision::float32);
  const auto stranger = table.folder.path() / "stranger.h5";
  checkpoints::write_snapshot(stranger, training::start_snapshot(other, {})());
  table.files = {files[0], stranger};
  EXPECT_THAT(message_of(make), HasSubstr("stranger.h5"));

  auto weights = checkpoints::read_snapshot(files[0]).weights;
  const auto good = table.folder.path() / "good.safetensors";
  write_bias_first(good, weights);
  weights[3] = NAN;
  const auto bad = table.folder.path() / "bad.safetensors";
  write_bias_first(bad, weights);
  table.files = {good, bad};
  EXPECT_THAT(message_of(make),
              HasSubstr("bad.safetensors has a value that is not finite in fc.weight"));
}

}  // namespace
}  // namespace dimred::soup
