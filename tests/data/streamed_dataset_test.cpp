#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "data/loader.h"
#include "data/presets.h"
#include "data/samplers.h"
#include "tests/data/copied_source.h"
#include "tests/data/loader_passes.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<int> shard_sizes = {5, 3, 6, 4, 2, 7};

struct Streamed : testing::Test {
  StreamedRecords records{shard_sizes};
  std::shared_ptr<const Dataset> here = records.open_here();
  std::shared_ptr<CopiedSource> source = records.source(records.bytes() / 2);
  std::shared_ptr<const Dataset> streamed = records.open_streamed(source);

  Order order(std::int64_t window = 6) const {
    return {
        .seed = 4, .size = here->size(), .sampler = windowed_shuffle(here->shard_sizes(), window)};
  }
  Loader loader(const Dataset& dataset, const LoaderOptions& options, std::int64_t first = 0) {
    return {dataset, order(), recipe(Recipe::imagenet, 8), options, /*epoch=*/1, first};
  }
  std::vector<Batch> batches(const Dataset& dataset,
                             const LoaderOptions& options,
                             std::int64_t first = 0) {
    Loader pass(dataset, order(), recipe(Recipe::imagenet, 8), options, /*epoch=*/1, first);
    return drain(pass);
  }
};

TEST_F(Streamed, IsTheDataSetOfFilesThatAreHere) {
  EXPECT_EQ(streamed->size(), here->size());
  EXPECT_EQ(streamed->class_names(), here->class_names());
  EXPECT_EQ(streamed->shard_sizes(), here->shard_sizes());
  EXPECT_EQ(streamed->digest(), here->digest());
  EXPECT_THAT(streamed->description(), HasSubstr("there://train-0 and 5 more files"));
  EXPECT_THAT(streamed->origin(0), HasSubstr("there://train-0, offset 0"));
  for (const std::int64_t index : {0, 26, 3, 12, 8, 26, 0, 17}) {
    EXPECT_EQ(bytes_at(*streamed, index), image_file(index));
    EXPECT_EQ(label_at(*streamed, index), index % 3);
  }
  EXPECT_LE(source->most, records.bytes() / 2);
  EXPECT_EQ(here->stream_capacity(), std::nullopt);
  EXPECT_EQ(streamed->stream_capacity()->total(), records.bytes());
}

TEST_F(Streamed, GivesTheSameBatchesFromAnyStepForAnyThreadsAndRanks) {
  for (const std::int64_t threads : {1, 3}) {
    for (const std::int64_t first : {0, 3}) {
      for (const int rank : {0, 1}) {
        const LoaderOptions options{.batch_size = 5, .rank = rank, .ranks = 2, .threads = threads};
        const auto expected = batches(*here, options, first);
        const auto found = batches(*streamed, options, first);
        ASSERT_EQ(found.size(), expected.size());
        for (std::size_t i = 0; i < found.size(); ++i) expect_equal(found[i], expected[i]);
      }
    }
  }
  EXPECT_LE(source->most, records.bytes() / 2);
}

TEST_F(Streamed, GzFilesAreDecompressedAsTheyCome) {
  const auto plain = records.bytes();
  auto packed = records.files;
  for (auto& file : packed) {
    const auto text = text_of_file(file);
    file += ".gz";
    const auto out = gzopen(file.c_str(), "wb");
    gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
    gzclose(out);
  }
  records.files = packed;
  std::filesystem::remove_all(records.folder / "here");
  const auto dataset = records.open_streamed(records.source(records.bytes() * 2));
  EXPECT_EQ(dataset->digest(), here->digest());
  std::uintmax_t largest = 0;
  for (const auto& file : packed) largest = std::max(largest, std::filesystem::file_size(file));
  const auto beside = 2 * static_cast<std::int64_t>(largest);  // as two come at a time
  EXPECT_EQ(dataset->stream_capacity()->total(), plain + beside);
  for (std::int64_t index = 0; index < here->size(); ++index)
    EXPECT_EQ(bytes_at(*dataset, index), image_file(index));
}

/// The needs of an epoch from a position on: the files in the order of first need.
std::vector<std::size_t> needed(const Order& order, const Dataset& dataset, std::int64_t from) {
  std::vector<std::size_t> file_of;
  const auto counts = dataset.shard_sizes();
  for (std::size_t file = 0; file < counts.size(); ++file)
    file_of.insert(file_of.end(), static_cast<std::size_t>(counts[file]), file);
  std::vector<std::size_t> files;
  for (auto position = from; position < order.size; ++position) {
    const auto file = file_of[static_cast<std::size_t>(order.at(1, position))];
    if (std::ranges::find(files, file) == files.end()) files.push_back(file);
  }
  return files;
}

TEST_F(Streamed, SaysWhichFilesTheEpochNeedsNext) {
  auto pass = loader(*streamed, {.batch_size = 3, .prefetch = 1});
  ASSERT_TRUE(pass.next());
  const auto first = source->wanted();
  ASSERT_GE(first.size(), 2U);
  auto all = needed(order(), *here, 0);
  EXPECT_EQ(first, std::vector(all.begin(), all.begin() + std::ssize(first)));
  while (pass.next()) {
  }
  // The files that the last steps need, for ranks that may be two steps behind.
  all = needed(order(), *here, 27 - 4 * 3);
  const auto last = source->wanted();
  ASSERT_FALSE(last.empty());
  for (const auto file : last) EXPECT_NE(std::ranges::find(all, file), all.end()) << file;
  // That of the last sample among them; and what was done long before is not wanted any more.
  EXPECT_NE(std::ranges::find(last, needed(order(), *here, 26).front()), last.end());
  EXPECT_NE(last, first);
}

TEST_F(Streamed, SaysWhatTheNextEpochNeedsWhereThereIsRoom) {
  source = records.source(records.bytes());
  streamed = records.open_streamed(source);
  const auto ends_with_next = [&](std::int64_t epochs) {
    auto pass = loader(*streamed, {.batch_size = 3, .prefetch = 1, .epochs = epochs}, 8);
    while (pass.next()) {
    }
    const auto own = needed(order(), *here, 27 - 4 * 3);
    return std::ranges::any_of(source->wanted(), [&](std::size_t file) {
      return std::ranges::find(own, file) == own.end();
    });
  };
  EXPECT_FALSE(ends_with_next(2));  // epochs 0 and 1: this is the last
  EXPECT_TRUE(ends_with_next(3));
}

TEST_F(Streamed, ASubsetNeedsTheFilesOfItsSamplesOnly) {
  source = records.source(records.bytes());
  const auto wide = with_unused_classes(records.open_streamed(source), 100);
  const auto part = subset(wide, {0, 1, 13, 14});  // of files 0, 2 and 3
  part->expect(
      {.begin = 0, .end = 4, .period = 4, .sequence = 1, .index_at = [](std::int64_t position) {
         return 3 - position;
       }});
  EXPECT_THAT(source->wanted(), ElementsAre(3, 2, 0));
  EXPECT_EQ(part->stream_capacity()->room, records.bytes());
}

TEST_F(Streamed, WithoutAnOrderFilesAreTakenToBeReadFromFirstToLast) {
  bytes_at(*streamed, 8);  // of file 2
  const auto wanted = source->wanted();
  ASSERT_GE(wanted.size(), 2U);
  EXPECT_EQ(wanted[0], 2U);
  EXPECT_EQ(wanted[1], 3U);
}

TEST_F(Streamed, AFileThatCannotBeHadEndsThePassAndIsNoBadSample) {
  std::filesystem::remove_all(records.folder / "here");
  const auto another = records.source(records.bytes());
  const auto dataset = records.open_streamed(another);
  std::filesystem::remove(records.folder / "here/train-3");
  another->failing = 3;
  Loader pass(*dataset,
              order(),
              recipe(Recipe::imagenet, 8),
              {.batch_size = 3, .bad_sample = BadSample::replace},
              /*epoch=*/1);
  EXPECT_THROW(drain(pass), FetchFailed);
}

/// Changes of a file's copy on this machine.
struct Damage {
  const char* name;
  void (*make)(std::string& content);
};
struct DamagedCopy : Streamed, testing::WithParamInterface<Damage> {
  /// The copy of file 3, which holds samples 14 to 17, as an earlier start has left it.
  void damage() const {
    const auto file = records.folder / "here/train-3";
    auto content = text_of_file(file);
    GetParam().make(content);
    put_file(file, content);
  }
};
INSTANTIATE_TEST_SUITE_P(
    Streamed,
    DamagedCopy,
    testing::Values(
        Damage{"Short", [](std::string& content) { content.resize(content.size() - 30); }},
        Damage{"Empty", [](std::string& content) { content.clear(); }},
        Damage{"Longer", [](std::string& content) { content += "x"; }},
        Damage{"Overwritten", [](std::string& content) { content.assign(content.size(), 'x'); }},
        Damage{"InOneBit",
               [](std::string& content) {
                 content[content.size() - 30] = static_cast<char>(content[content.size() - 30] ^ 1);
               }}),
    [](const auto& damage) { return damage.param.name; });

TEST_P(DamagedCopy, IsFetchedAgainAndCostsNoSample) {
  source = records.source(records.bytes());
  for (const auto index : {17, 14}) {
    streamed = records.open_streamed(source, {.dataset = {.skip_bad = true}});
    for (const auto sample : {14, 15, 16, 17}) bytes_at(*streamed, sample);
    damage();
    streamed = records.open_streamed(source, {.dataset = {.skip_bad = true}});  // the next start
    source->fetched.clear();
    for (const auto sample : {index, 14, 15, 16, 17})
      EXPECT_EQ(bytes_at(*streamed, sample), image_file(sample));
    EXPECT_THAT(source->fetched, ElementsAre(3));
  }
}

TEST_P(DamagedCopy, IsNotWhatAnIndexIsMadeOf) {
  source = records.source(records.bytes());
  source->get({3, 1}, reads_are_stopped);
  damage();
  std::filesystem::remove_all(records.folder / "here/index");
  streamed = records.open_streamed(source);
  EXPECT_EQ(streamed->digest(), here->digest());
}

TEST_F(Streamed, ACopyThatIsDamagedEachTimeItComesEndsThePassAndNamesTheFile) {
  source->drop(3);  // what the pass has left
  source->on_arrival([](std::size_t shard, const std::filesystem::path& file) {
    if (shard == 3) put_file(file, std::string(std::filesystem::file_size(file), 'x'));
  });
  const auto text = thrown<FetchFailed>(
      [&] { batches(*streamed, {.batch_size = 3, .bad_sample = BadSample::replace}); });
  EXPECT_THAT(text, HasSubstr("[stream] there://train-3, offset "));
  EXPECT_THAT(text, HasSubstr("a second download of the file is damaged too"));
}

TEST_F(Streamed, ALoaderThatEndsWaitsForNoFile) {
  source->blocked = true;
  const auto began = std::chrono::steady_clock::now();
  {
    auto pass = loader(*streamed, {.batch_size = 3, .threads = 2});
    while (!source->waiting) std::this_thread::yield();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
  source->blocked = false;
}

TEST_F(Streamed, AWaitForABatchIsCalledOff) {
  std::atomic<bool> stopped = false;
  auto pass =
      loader(*streamed,
             {.batch_size = 3, .prefetch = 1, .stopped = [&stopped] { return stopped.load(); }});
  ASSERT_TRUE(pass.next());
  source->blocked = true;
  std::jthread stopper([&] {
    while (!source->waiting) std::this_thread::yield();
    stopped = true;
  });
  EXPECT_THROW(drain(pass), ReadingStopped);
  stopper.join();
  EXPECT_GT(pass.seconds_waited(), 0);
  source->blocked = false;
}

TEST_F(Streamed, TheWaitForFilesIsReportedApartFromReading) {
  source->blocked = true;
  auto pass = loader(*streamed, {.batch_size = 3, .prefetch = 1});
  while (!source->waiting) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  source->blocked = false;
  drain(pass);
  const auto report = pass.report();
  EXPECT_GE(report.fetch_seconds, 0.04);
  EXPECT_GE(report.read_seconds, 0);
}

TEST_F(Streamed, RefusesRoomForLessThanAFile) {
  std::filesystem::remove_all(records.folder / "here");
  EXPECT_THAT(error_of([&] { records.open_streamed(records.source(records.bytes() / 10)); }),
              HasSubstr("stream_cache needs to be at least "));
}

}  // namespace
}  // namespace dimred::data
