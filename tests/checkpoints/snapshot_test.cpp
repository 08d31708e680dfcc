#include "checkpoints/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <thread>

#include "checkpoints/weight_digests.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"
#include "tests/checkpoints/damage.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::checkpoints {
namespace {

using ::testing::HasSubstr;

constexpr double test_nan = std::numeric_limits<double>::quiet_NaN();

Snapshot example(std::int64_t step = 7) {
  const auto layout = layout::make_layout({{"conv.weight", {10, 3, 3, 3}}, {"conv.bias", {10}}});
  Snapshot snapshot;
  for (int i = 0; i < layout.file_size; ++i) snapshot.weights.push_back(std::sin(1.0F + i));
  snapshot.weights[1] = -0.0F;
  snapshot.weights[2] = std::numeric_limits<float>::denorm_min();
  snapshot.weights[3] = std::numeric_limits<float>::max();
  snapshot.buffers = {0.25F, -1.5F, 3.0F};
  snapshot.counters = {std::numeric_limits<std::int64_t>::min(), 42};
  snapshot.epoch = 3;
  snapshot.step = step;
  snapshot.train_loss = 0.1;
  snapshot.layout_json = to_json(layout);
  snapshot.layout_hash = layout.hash;
  snapshot.run_json = R"({"config": "model = \"convnet\"\n"})";
  return snapshot;
}

std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> result;
  for (float value : values) result.push_back(std::bit_cast<std::uint32_t>(value));
  return result;
}

void expect_equal(const Snapshot& received, const Snapshot& expected) {
  EXPECT_EQ(bits(received.weights), bits(expected.weights));
  EXPECT_EQ(bits(received.buffers), bits(expected.buffers));
  EXPECT_EQ(received.counters, expected.counters);
  EXPECT_EQ(received.epoch, expected.epoch);
  EXPECT_EQ(received.step, expected.step);
  EXPECT_EQ(received.train_loss, expected.train_loss);
  EXPECT_EQ(std::isnan(received.validation_loss), std::isnan(expected.validation_loss));
  EXPECT_EQ(received.layout_json, expected.layout_json);
  EXPECT_EQ(received.layout_hash, expected.layout_hash);
  EXPECT_EQ(received.run_json, expected.run_json);
}

TEST(Snapshot, GivesTheColumnsAskedFor) {
  const TemporaryFolder folder;
  const auto path = folder / "snapshot.h5";
  write_snapshot(path, example());
  EXPECT_EQ(folder.count(), 1U);
  const auto read = [&](const ColumnRanges& columns) {
    return read_snapshot(path, [&](const SnapshotInfo& info) {
      EXPECT_EQ(info.layout_hash, example().layout_hash);
      return columns;
    });
  };
  const auto whole = example().weights;
  std::vector<float> expected(whole.begin() + 3, whole.begin() + 10);
  expected.insert(expected.end(), whole.end() - 5, whole.end());
  auto part = example();
  part.weights = expected;
  expect_equal(read(std::vector<layout::ColumnRange>{{3, 10}, {20, 20}, {275, 280}}), part);
  expect_equal(read(std::nullopt), example());
  for (const layout::ColumnRange range : {layout::ColumnRange{-1, 4}, {270, 281}, {5, 4}})
    EXPECT_THROW(read(std::vector{range}), std::invalid_argument);
  auto bytes = text_of_file(path);  // what is not asked for counts, too
  const auto place = read_snapshot_info(path).weights_offset + 4 * 100;
  bytes[static_cast<std::size_t>(place)] ^= 1;
  put_file(path, bytes);
  EXPECT_THROW(read(std::vector<layout::ColumnRange>{{0, 10}}), std::runtime_error);
}

TEST(Snapshot, MayLackBuffersAndCounters) {
  const TemporaryFolder folder;
  Snapshot snapshot = example();
  snapshot.buffers.clear();
  snapshot.counters.clear();
  snapshot.train_loss = 0;
  write_snapshot(folder / "s.h5", snapshot);
  expect_equal(read_snapshot(folder / "s.h5"), snapshot);
}

TEST(Snapshot, MayLackWhatItsRunWas) {  // as a recorder's in Python does
  const TemporaryFolder folder;
  Snapshot snapshot = example();
  snapshot.run_json.clear();
  snapshot.train_loss = 0;
  write_snapshot(folder / "s.h5", snapshot);
  expect_equal(read_snapshot(folder / "s.h5"), snapshot);
}

TEST(Snapshot, HasTheDigestOfAllButItsWeightsInItsHead) {
  const TemporaryFolder folder;
  write_snapshot(folder / "s.h5", example());
  const auto text = text_of_file(folder / "s.h5");
  const auto begin = static_cast<std::size_t>(read_snapshot_info(folder / "s.h5").weights_offset);
  const auto end = begin + 4 * example().weights.size();
  const auto line = formatted("weights {} {}\n", begin, end);
  const auto covered = digest(line + text.substr(512, begin - 512) + text.substr(end));
  EXPECT_EQ(snapshot_digest(folder / "s.h5"), covered);
  const auto head = formatted("dimred-snapshot 2\nxxh3-128 {}\n{}", covered, line);
  EXPECT_EQ(text.substr(0, 512), head + std::string(512 - head.size(), '\0'));
  put_file(folder / "cut.h5", text_of_file(folder / "s.h5").substr(0, 511));
  EXPECT_THROW(snapshot_digest(folder / "cut.h5"), std::runtime_error);
  put_file(folder / "other.h5", std::string(600, 'x'));
  EXPECT_THROW(snapshot_digest(folder / "other.h5"), std::runtime_error);
}

TEST(Snapshot, GivesTheSameBytesForTheSameValuesAtAnyTime) {
  const TemporaryFolder folder;
  write_snapshot(folder / "a.h5", example());
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // HDF5 keeps times in seconds
  write_snapshot(folder / "b.h5", example());
  EXPECT_EQ(text_of_file(folder / "a.h5"), text_of_file(folder / "b.h5"));
}

TEST(SnapshotInfo, LocatesTheWeightsInTheFile) {
  const TemporaryFolder folder;
  const Snapshot snapshot = example();
  write_snapshot(folder / "s.h5", snapshot);
  const SnapshotInfo info = read_snapshot_info(folder / "s.h5");
  ASSERT_EQ(info.parameters, std::ssize(snapshot.weights));
  std::vector<float> weights(snapshot.weights.size());
  InputFile(folder / "s.h5").read(info.weights_offset, std::as_writable_bytes(std::span(weights)));
  EXPECT_EQ(bits(weights), bits(snapshot.weights));
  EXPECT_EQ(info.buffer_count, 3);
  EXPECT_EQ(info.counter_count, 2);
  EXPECT_EQ(info.layout_hash, snapshot.layout_hash);
}

TEST(SnapshotInfo, IsReadThroughAnOpenFileAlone) {
  const TemporaryFolder folder;
  write_snapshot(folder / "s.h5", example());
  const InputFile file(folder / "s.h5");
  write_snapshot(folder / "s.h5", example(8));
  EXPECT_EQ(read_snapshot_info(file).step, 7);
  std::filesystem::remove(folder / "s.h5");
  EXPECT_EQ(read_snapshot_info(file).layout_json, example().layout_json);
}

// Oracle: the plain HDF5 library, told nothing of our format, as h5py uses it.
TEST(Snapshot, IsAnOrdinaryHdf5File) {
  const TemporaryFolder folder;
  const Snapshot snapshot = example();
  write_snapshot(folder / "s.h5", snapshot);
  const hid_t file = H5Fopen((folder / "s.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  const hid_t weights = H5Dopen2(file, "weights", H5P_DEFAULT);
  std::vector<double> values(snapshot.weights.size());
  ASSERT_GE(H5Dread(weights, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()), snapshot.weights);
  const hid_t step = H5Aopen(file, "step", H5P_DEFAULT);
  int number = 0;
  ASSERT_GE(H5Aread(step, H5T_NATIVE_INT, &number), 0);
  EXPECT_EQ(number, 7);
  H5Aclose(step);
  H5Dclose(weights);
  H5Fclose(file);
}

TEST(Snapshot, RefusesNonFiniteValues) {
  const TemporaryFolder folder;
  Snapshot snapshot = example();
  snapshot.weights[17] = std::numeric_limits<float>::infinity();
  const auto write = [&] { write_snapshot(folder / "s.h5", snapshot); };
  EXPECT_EQ(thrown<std::invalid_argument>(write),
            "[snapshot] needs finite values, received inf in weights[17], \"conv.weight\"[17]");
  snapshot.layout_json =
      R"({"parameters":[{"name":"a","shape":[2,8]},{"name":"b.weight","shape":[99]}]})";
  EXPECT_EQ(thrown<std::invalid_argument>(write),
            "[snapshot] needs finite values, received inf in weights[17], \"b.weight\"[1]");
  snapshot = example();
  snapshot.buffers[2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(thrown<std::invalid_argument>(write),
            "[snapshot] needs finite values, received nan in buffers[2]");
  snapshot = example();
  snapshot.train_loss = std::numeric_limits<double>::infinity();
  EXPECT_THROW(write(), std::invalid_argument);
  EXPECT_EQ(folder.count(), 0U);
}

/// Writes it as a file of version 1, which has one digest of all.
std::string with_right_digest(const std::string& text) {
  auto head = formatted("dimred-snapshot 1\nxxh3-128 {}\n", digest(text.substr(512)));
  head.resize(512);
  return head + text.substr(512);
}

TEST(Snapshot, OfVersion1IsVerifiedWhenItIsOpened) {
  const TemporaryFolder folder;
  const auto path = folder / "s.h5";
  write_snapshot(path, example());
  put_file(path, with_right_digest(text_of_file(path)));
  const auto info = read_snapshot_info(path);
  EXPECT_EQ(info.digests_offset, 0);
  expect_equal(read_snapshot(path), example());
  EXPECT_EQ(snapshot_digest(path), file_digest(path, 512));
  auto text = text_of_file(path);
  text[static_cast<std::size_t>(info.weights_offset) + 400] ^= 1;
  put_file(path, text);
  EXPECT_THROW(read_snapshot_info(path), std::runtime_error);
}

TEST(Snapshot, VerifiesTheBlocksOfWeightsThatAreRead) {
  const TemporaryFolder folder;
  const auto path = folder / "s.h5";
  auto snapshot = example();
  snapshot.weights.resize(100'000);
  std::ranges::generate(snapshot.weights, [i = 0]() mutable { return std::sin(1.0F + i++); });
  write_snapshot(path, snapshot);
  const auto info = verify_snapshot(path);
  const auto read = [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> values(end - begin);
    read_digested(InputFile(path),
                  {info.weights_offset, info.parameters, info.digests_offset},
                  begin,
                  values);
    return values;
  };
  const auto whole = std::span(snapshot.weights);
  // Ranges in one block, over its ends, of whole blocks, the last of which has 160, and of more
  // than one read holds.
  for (const auto& [begin, end] : {std::pair(3, 5),
                                   {511, 513},
                                   {512, 1024},
                                   {0, 100'000},
                                   {99'840, 100'000},
                                   {99'839, 99'999},
                                   {7, 99'999},
                                   {70'000, 70'000}})
    EXPECT_EQ(read(begin, end), std::vector<float>(whole.begin() + begin, whole.begin() + end))
        << begin << " to " << end;
  auto text = text_of_file(path);
  text[static_cast<std::size_t>(info.weights_offset) + 4 * 70'000] ^= 1;  // block 136
  put_file(path, text);
  EXPECT_EQ(read_snapshot_info(path).parameters, 100'000);
  EXPECT_NO_THROW(read(0, 136 * 512));
  EXPECT_NO_THROW(read(137 * 512, 100'000));
  for (const auto& [begin, end] : {std::pair(0, 100'000), {69'632, 69'633}, {70'143, 70'200}})
    EXPECT_EQ(
        thrown<std::runtime_error>([&] { read(begin, end); }),
        formatted("[snapshot] '{}' is damaged: weights 69632 to 70143 do not match their digest",
                  path));
  EXPECT_THROW(verify_snapshot(path), std::runtime_error);
  EXPECT_THROW(read_snapshot(path), std::runtime_error);
}

// Its digest is right for what the header says.
TEST(Snapshot, RefusesAHeadThatNamesOtherBytesThanTheWeights) {
  const TemporaryFolder folder;
  const auto path = folder / "s.h5";
  write_snapshot(path, example());
  const auto text = text_of_file(path);
  const auto begin = static_cast<std::size_t>(read_snapshot_info(path).weights_offset);
  for (const auto& [from, to] : {std::pair(begin, begin + 4), {text.size(), text.size()}}) {
    const auto line = formatted("weights {} {}\n", from, to);
    const auto covered = digest(line + text.substr(512, from - 512) + text.substr(to));
    auto head = formatted("dimred-snapshot 2\nxxh3-128 {}\n{}", covered, line);
    head.resize(512);
    put_file(path, head + text.substr(512));
    EXPECT_THAT(thrown<std::runtime_error>([&] { read_snapshot_info(path); }),
                HasSubstr("the header says"));
  }
  for (const auto* line : {"weights 511 600\n",
                           "weights 512 512\n",
                           "weights 600 599\n",
                           "weights 600 9999999999\n"}) {
    auto head = formatted("dimred-snapshot 2\nxxh3-128 {}\n{}", std::string(32, '0'), line);
    head.resize(512);
    put_file(path, head + text.substr(512));
    EXPECT_THAT(thrown<std::runtime_error>([&] { read_snapshot_info(path); }),
                HasSubstr("is damaged"));
  }
}

/// Puts weights in the place of a snapshot's own that lie elsewhere, which is `where`.
void replace_weights(hid_t file, const std::string& kind, const std::string& where) {
  H5Ldelete(file, "weights", H5P_DEFAULT);
  if (kind == "soft") H5Lcreate_soft("/buffers", file, "weights", H5P_DEFAULT, H5P_DEFAULT);
  if (kind == "external link")
    H5Lcreate_external(where.c_str(), "weights", file, "weights", H5P_DEFAULT, H5P_DEFAULT);
  if (kind != "external data" && kind != "virtual") return;
  const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t size = 4, unlimited = H5S_UNLIMITED, start = 0, one = 1;
  const bool external = kind == "external data";
  const hid_t space = H5Screate_simple(1, &size, external ? nullptr : &unlimited);
  if (external) {
    H5Pset_external(properties, where.c_str(), 0, 16);
  } else {  // its extent is that of the dataset in the other file
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, &one, &unlimited, &one);
    H5Pset_virtual(properties, space, where.c_str(), "weights", space);
  }
  H5Dclose(
      H5Dcreate2(file, "weights", H5T_IEEE_F32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT));
  H5Sclose(space);
  H5Pclose(properties);
}

// A pipe would hang; the digests are right.
TEST(Snapshot, IsReadFromItsOwnFileAlone) {
  const TemporaryFolder folder;
  const auto pipe = folder / "pipe", path = folder / "s.h5";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string kind : {"soft", "external link", "external data", "virtual"}) {
    write_snapshot(path, example());
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    replace_weights(file, kind, pipe);
    ASSERT_GE(H5Fclose(file), 0);
    put_file(path, with_right_digest(text_of_file(path)));
    const auto text = thrown<std::runtime_error>([&] { read_snapshot(path); });
    const auto* wanted = kind.ends_with("link") || kind == "soft"
                             ? "is a soft or external link"
                             : "contiguous layout inside this file";
    EXPECT_THAT(text, HasSubstr(wanted)) << kind << ": " << text;
  }
}

// A file of another program, whose digest is right.
TEST(Snapshot, RefusesToReadNonFiniteValues) {
  const TemporaryFolder folder;
  write_snapshot(folder / "s.h5", example());
  const auto offset = static_cast<std::size_t>(read_snapshot_info(folder / "s.h5").weights_offset);
  std::string text = text_of_file(folder / "s.h5");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(text.data() + offset + 17 * sizeof nan, &nan, sizeof nan);
  put_file(folder / "s.h5", with_right_digest(text));
  EXPECT_THAT(thrown<std::runtime_error>([&] { read_snapshot(folder / "s.h5"); }),
              HasSubstr("weights[17] is not finite"));
}

TEST(Snapshot, RefusesToReadCountsOutOfRange) {
  const TemporaryFolder folder;
  const auto path = folder / "s.h5";
  for (const std::int64_t step : {std::int64_t{-5}, (std::int64_t{1} << 53) + 1}) {
    write_snapshot(path, example());
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t attribute = H5Aopen(file, "step", H5P_DEFAULT);
    ASSERT_GE(H5Awrite(attribute, H5T_NATIVE_INT64, &step), 0);
    H5Aclose(attribute);
    H5Fclose(file);
    put_file(path, with_right_digest(text_of_file(path)));
    const auto message = thrown<std::runtime_error>([&] { read_snapshot_info(path); });
    EXPECT_THAT(message, HasSubstr("needs a step in [0, 2^53], received " + std::to_string(step)));
  }
}

TEST(Snapshot, RefusesMissingForeignAndEmptyFiles) {
  const TemporaryFolder folder;
  EXPECT_THROW(read_snapshot(folder / "none.h5"), std::invalid_argument);
  for (const std::string& text :
       {std::string(), std::string("\x89HDF\r\n\x1a\n", 8), std::string(2000, 'x')}) {
    put_file(folder / "foreign.h5", text);
    EXPECT_FALSE(is_snapshot(folder / "foreign.h5"));
    EXPECT_THAT(thrown<std::invalid_argument>([&] { read_snapshot(folder / "foreign.h5"); }),
                HasSubstr("is not a snapshot"));
  }
}

TEST(Snapshot, DetectsTruncationAtAnyLength) {
  const TemporaryFolder folder;
  const auto path = folder / "s.h5";
  write_snapshot(path, example());
  const std::string text = text_of_file(path);
  for (std::size_t length : {18UL, 100UL, 511UL, 512UL, 513UL, 1000UL, 2048UL, text.size() - 1}) {
    put_file(path, text.substr(0, length));
    EXPECT_THAT(thrown<std::runtime_error>([&] { read_snapshot(path); }), HasSubstr("is damaged"))
        << length;
  }
  put_file(path, text + '\0');
  EXPECT_THROW(read_snapshot_info(path), std::runtime_error);
}

TEST(Snapshot, DetectsEveryFlippedBit) {
  const TemporaryFolder folder;
  const auto path = folder / "s.h5";
  write_snapshot(path, example());
  constexpr std::size_t magic_bits = 18 * 8;
  for_each_flipped_bit(path, 512, 300, [&](std::size_t bit) {
    const auto read = [&] { verify_snapshot(path); };
    const std::string text =
        bit < magic_bits ? thrown<std::invalid_argument>(read) : thrown<std::runtime_error>(read);
    EXPECT_THAT(text, HasSubstr(bit < magic_bits ? "is not a snapshot" : "is damaged"))
        << "bit " << bit << ": " << text;
  });
  expect_equal(read_snapshot(path), example());
}

TEST(Snapshot, MayBeReadAndWrittenByManyThreads) {
  const TemporaryFolder folder;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&folder, i] {
        const auto path = folder / ("s" + std::to_string(i));
        for (int step = 0; step < 10; ++step) {
          write_snapshot(path, example(step));
          EXPECT_EQ(read_snapshot(path).step, step);
        }
      });
    }
  }
  EXPECT_EQ(folder.count(), 4U);
}

}  // namespace
}  // namespace dimred::checkpoints
