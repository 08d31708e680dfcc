#include <gtest/gtest.h>

#include <chrono>
#include <functional>

#include "checkpoints/safetensors.h"
#include "checkpoints/snapshot.h"
#include "pca/fit.h"
#include "pca/source.h"
#include "support/errors.h"
#include "tests/pca/sources.h"
#include "tests/tools/thread_ranks.h"

namespace dimred::pca {
namespace {

using testing::all_of;
using testing::Matrix;
using testing::small_layout;
using testing::snapshot_of;

TEST(OpenSourceByRanks, VerifiesEveryFileOnceAndGivesAllTheSameMatrix) {
  const TemporaryFolder folder;
  const layout::Layout layout = small_layout(50);
  const Matrix matrix = testing::random_matrix(7, layout.file_size, 3);
  for (int i = 0; i < 7; ++i) {
    checkpoints::write_snapshot(folder / formatted("{}.h5", i), snapshot_of(layout, matrix.row(i)));
  }
  const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(folder / "0.h5")) -
                     layout.file_size * 4;  // which whoever reads the weights verifies
  for (const int size : {2, 3, 9}) {
    const auto outcomes = ThreadRanks(size).run([&](Communicator& ranks) {
      const auto source = open_source(folder.path(), ranks);
      EXPECT_EQ(source->info().bytes_verified, (7 - ranks.rank() + size - 1) / size * bytes);
      EXPECT_EQ(all_of(*source), testing::to_float(matrix));
      EXPECT_EQ(source->info().names[5], (folder / "5.h5").string());
      EXPECT_EQ(source->info().layout_hash, layout.hash);
      EXPECT_EQ(source->info().layout_json, layout::to_json(layout));
    });
    EXPECT_EQ(outcomes, std::vector<std::string>(static_cast<std::size_t>(size)));
  }
}

TEST(OpenSourceByRanks, SharesWhatEachFoundInItsSafetensors) {
  const TemporaryFolder folder;
  for (int i = 0; i < 5; ++i) {
    const float value = static_cast<float>(i);
    checkpoints::FloatTensor a{"a.\xC3\xA9", {2}, {value, 2}}, b{"b", {1, 1}, {value * value}};
    checkpoints::write_safetensors(folder / formatted("{}.safetensors", i), {a, b});
  }
  const std::vector<float> expected = all_of(*open_source(folder.path()));
  const auto outcomes = ThreadRanks(3).run([&](Communicator& ranks) {
    const auto source = open_source(folder.path(), ranks);
    EXPECT_EQ(all_of(*source), expected);
    EXPECT_NE(source->info().layout_json.find("a.\xC3\xA9"), std::string::npos);
  });
  EXPECT_EQ(outcomes, std::vector<std::string>(3));
}

/// Does something at the second exchange of a rank: its files are verified by then, not yet opened.
class Between final : public Communicator {
 public:
  Between(Communicator& ranks, std::function<void()> work)
      : ranks_(ranks), work_(std::move(work)) {}
  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  void sum(std::span<double> values) override { ranks_.sum(values); }
  std::vector<std::string> gather(const std::string& text) override {
    if (++gathers_ == 2) work_();
    return ranks_.gather(text);
  }

 private:
  Communicator& ranks_;
  std::function<void()> work_;
  int gathers_ = 0;
};

TEST(OpenSourceByRanks, SeeWhatIsReplacedBehindItsVerification) {
  const TemporaryFolder folder;
  const layout::Layout layout = small_layout(50);
  const Matrix matrix = testing::random_matrix(4, layout.file_size, 3);
  std::vector<std::filesystem::path> files;
  for (int i = 0; i < 4; ++i) files.push_back(folder / formatted("{}.h5", i));
  const auto write = [&](int file, int row) {
    checkpoints::write_snapshot(files[file], snapshot_of(layout, matrix.row(row)));
    std::filesystem::last_write_time(files[file],
                                     std::filesystem::file_time_type() + std::chrono::hours(row));
  };
  for (const int changed : {0, 1}) {  // verified by rank 0, by rank 1
    for (int i = 0; i < 4; ++i) write(i, i);
    const auto outcomes = ThreadRanks(2).run([&](Communicator& ranks) {
      Between between(ranks, [&] {
        if (ranks.rank() == changed) write(changed, 3);
      });
      const auto source = open_files(files, between);
      fit(*source, {.components = 2}, folder / "p.npy", ranks);
    });
    for (const auto& outcome : outcomes)
      EXPECT_NE(outcome.find(formatted("environment: [pca] '{}' has changed", files[changed])),
                std::string::npos)
          << outcome;
    EXPECT_FALSE(std::filesystem::exists(folder / "p.npy"));
  }
}

/// The error that all of three ranks throw.
std::string common_refusal(const std::filesystem::path& path) {
  const auto outcomes = ThreadRanks(3).run([&](Communicator& ranks) { open_source(path, ranks); });
  EXPECT_EQ(outcomes, std::vector<std::string>(3, outcomes.front()));
  return outcomes.front();
}

TEST(OpenSourceByRanks, ThrowOnEveryRankWhatOneMeets) {
  const TemporaryFolder folder;
  const layout::Layout layout = small_layout(3);
  for (int i = 0; i < 5; ++i) {
    const Eigen::RowVectorXd row = Eigen::RowVectorXd::Constant(layout.file_size, i);
    checkpoints::write_snapshot(folder / formatted("{}.h5", i), snapshot_of(layout, row));
  }
  EXPECT_EQ(common_refusal(folder.path()), "");
  const std::string whole = text_of_file(folder / "4.h5");
  std::string bytes = whole;
  bytes[bytes.size() - 20] = static_cast<char>(bytes[bytes.size() - 20] ^ 4);
  put_file(folder / "4.h5", bytes);  // rank 1 of 3 verifies it
  std::string text = common_refusal(folder.path());
  EXPECT_TRUE(text.starts_with("environment: ")) << text;
  EXPECT_NE(text.find("4.h5"), std::string::npos) << text;
  const layout::Layout other = small_layout(4);
  checkpoints::write_snapshot(folder / "4.h5",
                              snapshot_of(other, Eigen::RowVectorXd::Zero(other.file_size)));
  text = common_refusal(folder.path());
  EXPECT_NE(text.find("4.h5' has another layout than"), std::string::npos) << text;
  EXPECT_NE(common_refusal(folder / "none").find("caller: [snapshots] needs snapshots"),
            std::string::npos);
}

TEST(OpenSourceByRanks, VerifiesWeightsOnTheRankThatReadsThem) {
  const TemporaryFolder folder;
  const layout::Layout layout = small_layout(4000);  // more than two digest blocks of columns
  const Matrix matrix = testing::random_matrix(5, layout.file_size, 2);
  const auto snapshots = folder / "snapshots";
  std::filesystem::create_directory(snapshots);
  for (int i = 0; i < 5; ++i)
    checkpoints::write_snapshot(snapshots / formatted("{}.h5", i),
                                snapshot_of(layout, matrix.row(i)));
  const auto outcomes = [&] {
    return ThreadRanks(3).run([&](Communicator& ranks) {
      fit_snapshots(snapshots, testing::options_of(3), folder / "p.npy", ranks);
    });
  };
  const auto victim = snapshots / "3.h5";  // rank 0 opens it
  const std::string whole = text_of_file(victim);
  const auto start = checkpoints::read_snapshot_info(victim).weights_offset;
  for (const std::int64_t column : {std::int64_t{0}, std::int64_t{20'000}, layout.file_size - 1}) {
    auto text = whole;
    text[start + 4 * column] ^= 1;
    put_file(victim, text);
    const auto errors = outcomes();
    EXPECT_EQ(errors, std::vector<std::string>(3, errors.front()));
    EXPECT_TRUE(errors.front().starts_with("environment: [snapshot] '" + victim.string()))
        << errors.front();
    EXPECT_EQ(folder.count(), 1U);
  }
  put_file(victim, whole);
  EXPECT_EQ(outcomes(), std::vector<std::string>(3));
}

}  // namespace
}  // namespace dimred::pca
