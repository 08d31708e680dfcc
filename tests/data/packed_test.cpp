#include "data/packed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <new>

#include "data/class_names.h"
#include "data/decode.h"
#include "data/encode.h"
#include "data/image_files.h"
#include "data/pack.h"
#include "data/survey.h"
#include "data/write_records.h"
#include "support/errors.h"
#include "tests/data/constructed_dataset.h"
#include "tests/data/record_files.h"

namespace dimred::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

namespace fs = std::filesystem;

struct Packed : testing::Test {
  TemporaryFolder folder;
  fs::path file = folder / "train.packed";
  std::vector<std::uint8_t> scratch;

  /// A PNG of label 2 and planes of label 0.
  void SetUp() override {
    const auto image = image_file(5);
    const std::string planes(2 * 3, 'p');
    PackedWriter writer(file);
    writer.add({.encoding = Encoding::png, .bytes = as_numbers(image), .label = 2});
    writer.add({.shape = {1, 2, 3}, .bytes = as_numbers(planes), .label = 0});
    writer.finish("a source", {"x", "y", "z"});
  }
};

TEST_F(Packed, GivesBackWhatWasWritten) {
  const auto dataset = open_packed(file);
  ASSERT_EQ(dataset->size(), 2);
  EXPECT_THAT(dataset->class_names(), ElementsAre("x", "y", "z"));
  EXPECT_EQ(dataset->shape(), std::nullopt);
  const auto image = dataset->read(0, scratch);
  EXPECT_EQ(image.encoding, Encoding::png);
  EXPECT_EQ(std::string(image.bytes.begin(), image.bytes.end()), image_file(5));
  EXPECT_EQ(image.label, 2);
  const auto planes = dataset->read(1, scratch);
  EXPECT_EQ(planes.encoding, Encoding::planes);
  EXPECT_EQ(planes.shape, (ImageShape{1, 2, 3}));
  EXPECT_EQ(std::string(planes.bytes.begin(), planes.bytes.end()), "pppppp");
  EXPECT_THAT(dataset->description(),
              AllOf(HasSubstr("2 images of 3 classes"), HasSubstr("made from a source")));
  EXPECT_THROW(dataset->read(2, scratch), std::invalid_argument);
}

/// As the header says: samples from the second page on, each on a 64-byte boundary.
TEST_F(Packed, LiesOnPages) {
  EXPECT_TRUE(is_packed(file));
  EXPECT_THAT(open_packed(file)->origin(0), HasSubstr("offset 4096"));
  const auto size = image_file(5).size();
  EXPECT_THAT(open_packed(file)->origin(1),
              HasSubstr(formatted("offset {}", 4096 + (size + 63) / 64 * 64)));
}

TEST_F(Packed, AppearsWhenItIsWhole) {
  const auto other = folder / "other.packed";
  {
    PackedWriter writer(other);
    writer.add({.shape = {1, 1, 1}, .bytes = as_numbers("p"), .label = 0});
  }
  EXPECT_FALSE(fs::exists(other));
  EXPECT_EQ(folder.count(), 1U);
}

TEST_F(Packed, NoticesDamage) {
  const auto whole = text_of_file(file);
  // Every byte that is read: header up to its end, the description; the samples when they are read.
  const auto problem = [&](std::size_t at) {
    auto text = whole;
    text[at] ^= 4;
    const auto path = folder.write("damaged", text);
    return error_of([&] {
      const auto dataset = open_packed(path);
      for (std::int64_t i = 0; i < dataset->size(); ++i) dataset->read(i, scratch);
    });
  };
  for (std::size_t at = 0; at < 64; ++at) {
    if (at >= 12 && at < 16) continue;  // not used
    EXPECT_NE(problem(at), "") << at;
  }
  for (std::size_t at = 4096; at < 4096 + image_file(5).size(); ++at)
    EXPECT_THAT(problem(at),
                HasSubstr("offset 4096: sample 0 is damaged: its bytes do not match its digest"));
  for (std::size_t at = whole.size() - 100; at < whole.size(); ++at)
    EXPECT_THAT(
        problem(at),
        AllOf(HasSubstr("the description at offset "), HasSubstr(" does not match its digest")));
}

TEST_F(Packed, RefusesACutFile) {
  const auto whole = text_of_file(file);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{7}, std::size_t{63}, std::size_t{5000}, whole.size() - 1}) {
    const auto path = folder.write("cut", whole.substr(0, size));
    EXPECT_THAT(error_of([&] { open_packed(path); }), HasSubstr("[packed] ")) << size;
  }
}

TEST_F(Packed, HasAShapeWhereAllSamplesHaveIt) {
  const ConstructedDataset source(5, {3, 4, 6});
  pack(source, folder / "planes", {}, {});
  const auto dataset = open_packed(folder / "planes");
  EXPECT_EQ(dataset->shape(), (ImageShape{3, 4, 6}));
  std::vector<std::uint8_t> other;
  for (std::int64_t i = 0; i < 5; ++i) {
    const auto found = dataset->read(i, scratch), expected = source.read(i, other);
    EXPECT_TRUE(std::ranges::equal(found.bytes, expected.bytes));
    EXPECT_EQ(found.label, expected.label);
  }
}

TEST_F(Packed, IsTheSameForAnyNumberOfThreads) {
  const ConstructedDataset source(150, {3, 20, 30});
  const auto bytes = [&](std::int64_t threads, PackEncoding encoding) {
    const auto path = folder / formatted("threads{}", threads);
    pack(source, path, {.encoding = encoding, .short_side = 10, .threads = threads}, {});
    return text_of_file(path);
  };
  for (const auto encoding : {PackEncoding::planes, PackEncoding::jpeg})
    EXPECT_EQ(bytes(1, encoding), bytes(3, encoding));
}

TEST_F(Packed, ReducesTheShortSideAndNeverEnlarges) {
  const ConstructedDataset source(2, {3, 20, 30});
  const auto shape = [&](std::int64_t side, PackEncoding encoding) {
    pack(source, folder / "reduced", {.encoding = encoding, .short_side = side}, {});
    const auto dataset = open_packed(folder / "reduced");  // what read() gives points into it
    const auto sample = dataset->read(1, scratch);
    return sample.encoding == Encoding::planes ? sample.shape : encoded_shape(sample);
  };
  EXPECT_EQ(shape(10, PackEncoding::planes), (ImageShape{3, 10, 15}));
  EXPECT_EQ(shape(10, PackEncoding::jpeg), (ImageShape{3, 10, 15}));
  EXPECT_EQ(shape(7, PackEncoding::keep), (ImageShape{3, 7, 10}));
  EXPECT_EQ(shape(40, PackEncoding::planes), (ImageShape{3, 20, 30}));
  EXPECT_EQ(shape(0, PackEncoding::jpeg), (ImageShape{3, 20, 30}));
}

/// Two image files that can be decoded, one in part and one not at all.
struct Damaged : ConstructedDataset {
  Damaged() : ConstructedDataset(3, {3, 64, 64}) {}
  std::optional<ImageShape> shape() const override { return std::nullopt; }
  Sample read(std::int64_t index, std::vector<std::uint8_t>& scratch) const override {
    const auto file = to_jpeg(std::vector<std::uint8_t>(3 * 64 * 64, 90), image_shape, 90);
    scratch.assign(file.begin(), index == 2 ? file.begin() + 30 : file.end() - 20 * index);
    return {.encoding = Encoding::jpeg, .bytes = scratch, .label = index};
  }
};

TEST_F(Packed, CountsWhatItLeavesOutOrTakesInPart) {
  PackOptions options{.encoding = PackEncoding::planes};
  EXPECT_THAT(error_of([&] { pack(Damaged(), folder / "all", options, {}); }),
              HasSubstr("sample 2: "));
  options.skip_bad = true;
  const auto report = pack(Damaged(), folder / "some", options, {});
  EXPECT_EQ(report.samples, 2);
  EXPECT_EQ(report.bad, 1);
  EXPECT_EQ(report.damaged, 1);
  EXPECT_THAT(report.first_bad, HasSubstr("sample 2: "));
  EXPECT_THAT(report.first_damaged, HasSubstr("sample 1: "));
  EXPECT_EQ(open_packed(folder / "some")->size(), 2);
}

TEST(Survey, DecodesWhenAsked) {
  EXPECT_EQ(survey(Damaged(), 3, 1, {}).problem_count, 1);
  const auto found = survey(Damaged(), 3, 1, {}, /*decode=*/true);
  EXPECT_EQ(found.problem_count, 2);
  EXPECT_THAT(found.problems, ElementsAre(HasSubstr("sample 1: "), HasSubstr("sample 2: ")));
}

TEST(WriteRecords, LeavesOutAndCounts) {
  const TemporaryFolder folder;
  ConstructedDataset source(7, {1, 8, 8});
  source.broken_index = 4;
  auto plan = conversion_plan(RecordForm::base64, {"a", "b"}, 7, std::nullopt);
  const OutputFolder output(folder / "out", "job");
  EXPECT_THROW(write_records(source, plan, output, {}), std::runtime_error);
  plan.skip_bad = true;
  const OutputFolder other(folder / "other", "job");
  const auto report = write_records(source, plan, other, {});
  EXPECT_EQ(report.samples, 6);
  EXPECT_EQ(report.bad, 1);
  EXPECT_THAT(report.first_bad, HasSubstr("sample 4"));
  std::string text = text_of_file(folder / "other/a") + text_of_file(folder / "other/b");
  EXPECT_EQ(std::ranges::count(text, '\n'), 6);
  fs::remove(folder / "other/a");  // of a start that was killed: b's samples are not counted again
  const auto rest = write_records(source, plan, other, {});
  EXPECT_EQ(rest.samples, 3);
  EXPECT_EQ(rest.bad, 0);
  EXPECT_EQ(rest.earlier_files, 1);
}

TEST(WriteRecords, RefusesNamesThatALineCannotHold) {
  const TemporaryFolder folder;
  ConstructedDataset source(7, {1, 8, 8});
  source.names[1] = "new\nline";
  const auto plan = conversion_plan(RecordForm::base64, {"a"}, 7, std::nullopt);
  EXPECT_THAT(error_of([&] { write_lists(source, plan, OutputFolder(folder / "out", "job")); }),
              HasSubstr("without control characters, received new\\nline"));
}

/// Names come back from labels.txt as they are, or nothing is written.
TEST(WriteRecords, NamesAreReadBackEqual) {
  const TemporaryFolder folder;
  ConstructedDataset source(7, {1, 8, 8});
  source.names = {"cat", "#a", "7:cat", "a\"b", "in side", "10", "\xC3\xA9"};
  auto plan = conversion_plan(RecordForm::tfrecord, {"train"}, 7, std::nullopt);
  const OutputFolder output(folder / "out", "job");
  write_records(source, plan, output, {});
  write_lists(source, plan, output);
  EXPECT_EQ(read_class_names(folder / "out/labels.txt"), source.names);
  source.names[2] = "dog ";
  const OutputFolder other(folder / "other", "job");
  EXPECT_THAT(error_of([&] { write_records(source, plan, other, {}); }),
              HasSubstr("must not begin or end with a space, received 'dog '"));
  EXPECT_FALSE(other.has("train"));
}

TEST(WriteRecords, RepeatsSamplesEvenly) {
  const auto plan = shuffle_split_plan(3, 5, 1);
  EXPECT_EQ(plan.count, 5);
  std::vector<int> counts(3);
  for (std::int64_t place = 0; place < plan.count; ++place)
    ++counts[static_cast<std::size_t>(plan.sample(place))];
  std::ranges::sort(counts);
  EXPECT_EQ(counts, (std::vector<int>{1, 2, 2}));
  EXPECT_THROW(shuffle_split_plan(3, 0, 1), std::invalid_argument);
}

TEST(WriteRecords, NamesFilesAsTensorFlowDoes) {
  EXPECT_THAT(shard_names("train", 2), ElementsAre("train-00000-of-00002", "train-00001-of-00002"));
}

TEST(WriteRecords, NeedsASampleForEveryFile) {
  const TemporaryFolder folder;
  const OutputFolder output(folder / "out", "job");
  const ConstructedDataset source(2, {1, 8, 8});
  const auto plan = conversion_plan(RecordForm::tfrecord, shard_names("a", 3), 2, std::nullopt);
  EXPECT_THROW(write_records(source, plan, output, {}), std::invalid_argument);
}

/// Shuffles 60 MB where the process may take 40 MB more than it has; what went wrong.
std::string error_with_little_memory() {
  const TemporaryFolder folder;
  fs::create_directories(folder / "data/a");
  auto file = image_file(1);
  file.resize(1'000'000);
  put_file(folder / "data/a/0.png", file);
  constexpr std::int64_t count = 60;
  for (std::int64_t i = 1; i < count; ++i)
    fs::create_hard_link(folder / "data/a/0.png", folder / formatted("data/a/{}.png", i));
  const auto source = open_image_folder(folder / "data");
  const OutputFolder output(folder / "out", "a job");
  std::ifstream pages("/proc/self/statm");
  rlim_t size = 0;
  pages >> size;
  rlimit before{};
  if (::getrlimit(RLIMIT_AS, &before) != 0) return "getrlimit failed";
  const rlimit little{size * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + 40'000'000,
                      before.rlim_max};
  if (::setrlimit(RLIMIT_AS, &little) != 0) return "setrlimit failed";
  auto text = thrown<std::bad_alloc>([] { return std::string(50'000'000, 'x'); });
  if (text != std::bad_alloc().what()) return "the limit does not hold: " + text;
  text = error_of([&] {
    const auto report = write_records(*source, shuffle_split_plan(count, 1, 3), output, {});
    check(report.bad == 0, "samples are left out");
  });
  ::setrlimit(RLIMIT_AS, &before);
  const bool whole = fs::file_size(output.path() / "base64_rank_0") > count * 1'333'000;
  return text.empty() && !whole ? "the file is too short" : text;
}

/// One sample at a time is in memory. A process of its own: what earlier tests have freed would be
/// room beside the limit.
TEST(ShuffleSplit, NeedsLessMemoryThanTheData) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [] {
    const auto text = error_with_little_memory();
    std::fputs(text.c_str(), stderr);
    return text.empty() ? 0 : 1;
  };
  EXPECT_EXIT(std::_Exit(run()), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace dimred::data
