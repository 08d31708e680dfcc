#include "pca/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoints/npy.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/series.h"
#include "checkpoints/snapshot.h"
#include "checkpoints/snapshot_list.h"
#include "checkpoints/state.h"
#include "layout/layout.h"
#include "pca/basis.h"
#include "support/descriptor.h"
#include "support/errors.h"
#include "support/parallel.h"
#include "support/scope_exit.h"
#include "tests/checkpoints/snapshots_there.h"
#include "tests/merge/checkpoints.h"
#include "tests/pca/matrices.h"
#include "tests/pca/sources.h"
#include "tests/tools/bytes_read.h"

namespace dimred::pca {
namespace {
std::vector<std::filesystem::path> found_at(const std::filesystem::path& path) {
  return checkpoints::member_weights(checkpoints::members({path}, "snapshots"));
}

using testing::all_of;
using ::testing::HasSubstr;
using testing::Matrix;
using ::testing::Not;
using testing::small_layout;
using testing::snapshot_of;

std::string npy(const std::string& type, const std::string& fortran, std::string_view values) {
  std::string header = checkpoints::npy_header_bytes({3, 4});
  header.replace(header.find("<f4"), 3, type);
  header.replace(header.find("False"), 5, fortran);
  return header + std::string(values);
}

TEST(OpenSource, ReadsNpyInBothOrdersAndTypes) {
  const TemporaryFolder folder;
  const std::vector<float> rows{0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23};
  const std::vector<float> columns{0, 10, 20, 1, 11, 21, 2, 12, 22, 3, 13, 23};
  const std::vector<double> rows64(rows.begin(), rows.end());
  const std::vector<double> columns64(columns.begin(), columns.end());
  put_file(folder / "c4.npy", npy("<f4", "False", merge::raw(rows)));
  put_file(folder / "f4.npy", npy("<f4", "True ", merge::raw(columns)));
  put_file(folder / "c8.npy", npy("<f8", "False", merge::raw(rows64)));
  put_file(folder / "f8.npy", npy("<f8", "True ", merge::raw(columns64)));
  for (const char* name : {"c4.npy", "f4.npy", "c8.npy", "f8.npy"}) {
    const auto source = open_source(folder / name);
    EXPECT_EQ(source->rows(), 3);
    EXPECT_EQ(source->columns(), 4);
    EXPECT_EQ(all_of(*source), rows) << name;
    EXPECT_EQ(source->info().names[1], (folder / name).string() + "[1]");
    EXPECT_EQ(source->info().layout_hash, "");
  }
}

TEST(OpenSource, ReadsLargeFortranAndFloat64Matrices) {
  const TemporaryFolder folder;
  const Matrix matrix = testing::random_matrix(7, 40000, 1);  // several chunks of each reader
  const std::vector<float> expected = testing::to_float(matrix);
  std::string header = checkpoints::npy_header_bytes({7, 40000});
  header.replace(header.find("<f4"), 3, "<f8");
  put_file(folder / "c.npy",
           header + std::string(reinterpret_cast<const char*>(matrix.data()), 7 * 40000 * 8));
  header.replace(header.find("False"), 5, "True ");
  const Eigen::MatrixXd by_columns = matrix;
  put_file(folder / "f.npy",
           header + std::string(reinterpret_cast<const char*>(by_columns.data()), 7 * 40000 * 8));
  for (const char* name : {"c.npy", "f.npy"}) {
    std::vector<float> tile(expected.size());
    open_source(folder / name)->read_tile(0, 40000, tile.data(), 40000);
    EXPECT_TRUE(tile == expected) << name;
  }
}

TEST(OpenSource, FitsAFolderOfSnapshotsInNumberOrder) {
  const TemporaryFolder folder;
  const layout::Layout layout = small_layout(50);
  const Matrix matrix = testing::random_matrix(12, layout.file_size, 2);
  const std::filesystem::path snapshots = folder / "snapshots";
  std::filesystem::create_directory(snapshots);
  std::int64_t bytes = 0;         // beside the weights
  for (int i = 0; i < 12; ++i) {  // "s_2" sorts before "s_10" by number, not by letter
    const std::filesystem::path path = snapshots / formatted("s_{}.h5", i);
    checkpoints::write_snapshot(path, snapshot_of(layout, matrix.row(i)));
    bytes += static_cast<std::int64_t>(std::filesystem::file_size(path)) - layout.file_size * 4;
  }
  const auto source = open_source(snapshots);
  EXPECT_EQ(all_of(*source), testing::to_float(matrix));
  EXPECT_EQ(source->info().layout_hash, layout.hash);
  EXPECT_EQ(source->info().bytes_verified, bytes);
  const Basis fitted = fit(*source, testing::options_of(4), folder / "p.npy");
  EXPECT_EQ(fitted.report.bytes_read, bytes + 2 * 12 * layout.file_size * 4);
  EXPECT_EQ(read_basis_header(folder / "p.npy").layout_hash, layout.hash);
  EXPECT_NO_THROW(load_basis(folder / "p.npy", layout, layout::shard_of(layout, 0, 1)));

  // The same number of parameters in another arrangement is another model.
  std::vector<layout::Parameter> parameters(1);
  parameters[0].name = "other";
  parameters[0].shape = {layout.file_size};
  const layout::Layout other = layout::make_layout(parameters);
  EXPECT_THAT(thrown<std::invalid_argument>(
                  [&] { load_basis(folder / "p.npy", other, layout::shard_of(other, 0, 1)); }),
              HasSubstr("another model: parameter 0: expected other"));

  // With fewer files at a time than there are snapshots, the others are opened to be read.
  std::vector<std::filesystem::path> files;
  const std::filesystem::directory_iterator opened("/proc/self/fd");
  const auto now = static_cast<rlim_t>(std::distance(begin(opened), end(opened)));
  const rlim_t most = 2 * (now + available_threads()) + 32;
  std::filesystem::create_directory(folder / "copies");
  while (files.size() < most)
    for (int i = 0; i < 12; ++i) {
      files.push_back(folder / "copies" / formatted("{}.h5", files.size()));
      std::filesystem::copy_file(snapshots / formatted("s_{}.h5", i), files.back());
    }
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit few{most, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const ScopeExit restored([&] { ::setrlimit(RLIMIT_NOFILE, &limit); });
  const auto many = all_of(*open_files(files));
  const auto last = std::span(many).last(source->columns());
  EXPECT_EQ(std::vector<float>(last.begin(), last.end()), testing::to_float(matrix.row(11)));

  put_file(folder / "list.txt", "snapshots/s_3.h5\n\nsnapshots/s_1.h5 \r\n");
  Matrix two(2, layout.file_size);
  two << matrix.row(1), matrix.row(3);
  EXPECT_EQ(all_of(*open_source(folder / "list.txt")), testing::to_float(two));
}

/// How often a file was opened and closed, whoever did so.
struct Openings {
  int opened = 0, closed = 0;
  bool operator==(const Openings&) const = default;
};

/// Returns the openings of a folder's files since `watch` began. The system merges equal events
/// that follow one another, so that the watch is for reads, too, which lie between.
std::map<std::string, Openings> openings(int watch) {
  std::vector<char> events(1 << 20);
  const auto bytes = std::max<ssize_t>(0, ::read(watch, events.data(), events.size()));
  std::map<std::string, Openings> counts;
  for (ssize_t at = 0; at < bytes;) {
    inotify_event event{};
    std::memcpy(&event, &events[at], sizeof(event));
    at += static_cast<ssize_t>(sizeof(event));
    if (event.len > 0 && (event.mask & IN_OPEN) != 0) ++counts[&events[at]].opened;
    if (event.len > 0 && (event.mask & IN_CLOSE) != 0) ++counts[&events[at]].closed;
    at += event.len;
  }
  return counts;
}

TEST(OpenSource, OpensEachSnapshotOfARunOnce) {
  const TemporaryFolder folder;
  const layout::Layout layout = small_layout(50);
  const Matrix matrix = testing::random_matrix(3, layout.file_size, 2);
  const checkpoints::SnapshotStore store(folder / "snapshots", 3);
  std::map<std::string, Openings> expected;
  for (int i = 0; i < 3; ++i) {
    auto snapshot = snapshot_of(layout, matrix.row(i));
    snapshot.step = i;
    expected[store.save(snapshot).path.filename()] = {1, 1};
  }
  checkpoints::State state;  // which lists them, so that each is compared with its digest there
  state.scalars = {{"step", 2},
                   {"snapshots", to_json(checkpoints::snapshots_there(store.folder()))}};
  checkpoints::StateStore(folder / "checkpoints", 1).save(state);
  ASSERT_TRUE(checkpoints::list_of_run(store.folder()));
  const Descriptor watch(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (::inotify_add_watch(watch, store.folder().c_str(), IN_OPEN | IN_ACCESS | IN_CLOSE) < 0)
    GTEST_SKIP() << "the system does not tell who opens files";
  EXPECT_EQ(all_of(*open_source(folder.path())), testing::to_float(matrix));
  EXPECT_TRUE(openings(watch) == expected);
}

TEST(OpenSource, ReadsEachSnapshotTwiceForAFit) {
  const TemporaryFolder folder;
  const layout::Layout layout = small_layout(20'000);
  const Matrix matrix = testing::random_matrix(5, layout.file_size, 2);
  for (int i = 0; i < 5; ++i)
    checkpoints::write_snapshot(folder / formatted("{}.h5", i), snapshot_of(layout, matrix.row(i)));
  std::vector<float> basis(3 * layout.file_size);
  for (const Blocks blocks : {Blocks::whole, Blocks::layers}) {
    auto options = testing::options_of(3);
    options.blocks = blocks;
    options.tile_bytes = 1 << 20;  // for tiles of fewer columns than a block of the pass has
    options.threads = 8;
    const auto before = bytes_read_so_far();
    fit_in_memory(*open_source(folder.path()), options, basis);
    const auto read = bytes_read_so_far() - before;
    EXPECT_GE(read, 2 * 5 * 4 * layout.file_size);
    // Digests, three times, and 20 kB a file of headers.
    EXPECT_LE(read, 5 * (2 * 4 * layout.file_size + 3 * layout.file_size / 64 + 20'000));
  }
}

TEST(OpenSource, ReadsSafetensorsOfEveryFloatType) {
  const TemporaryFolder folder;
  // 1, -2.5 and 0.0999755859375 (the half next to 0.1), in F32, F64, F16 and BF16; a counter and a
  // running mean, a moment and a rate, which are no weights.
  put_file(folder / "m.safetensors",
           merge::safetensors(
               {{"a", "F32", {2}, merge::raw<float>({1, -2.5})},
                {"b", "F64", {1}, merge::raw<double>({-2.5})},
                {"c", "F16", {2, 2}, merge::raw<std::uint16_t>({0x3C00, 0xC100, 0x2E66, 0x0001})},
                {"d", "BF16", {2}, merge::raw<std::uint16_t>({0x3F80, 0xC020})},
                {"n", "I64", {}, merge::raw<std::int64_t>({7})},
                merge::f32("bn.running_mean", {9}),
                merge::f32("moments.a", {5}),
                merge::f32("learning_rate", {6})}));
  const auto source = open_source(folder.path());
  EXPECT_EQ(all_of(*source),
            (std::vector<float>{1, -2.5, -2.5, 1, -2.5, 0.0999755859375, 0x1p-24F, 1, -2.5}));
  EXPECT_THAT(source->info().layout_json, HasSubstr("\"c\""));
  EXPECT_THAT(source->info().layout_json, Not(HasSubstr("running_mean")));
  EXPECT_EQ(source->info().left_out, (std::vector<std::string>{"moments.a", "learning_rate"}));
  EXPECT_DOUBLE_EQ(9 * source->info().item_bytes, 2 * 4 + 8 + 4 * 2 + 2 * 2);
}

TEST(OpenSource, ValueBeyondFloatIsRefusedByTheFitAsOneThatIsNotFinite) {
  const TemporaryFolder folder;
  for (int i = 0; i < 3; ++i) {
    const auto values = merge::raw<double>({1.0 * i, 2.0 * i * i, i == 1 ? 1e39 : 3});
    put_file(folder / formatted("{}.safetensors", i),
             merge::safetensors({{"a", "F64", {3}, values}}));
  }
  const auto source = open_source(folder.path());
  const std::string text = thrown<std::invalid_argument>(
      [&] { fit(*source, testing::options_of(1), folder / "p.npy"); });
  EXPECT_THAT(text, HasSubstr("received 1e+39 in row 1"));
  EXPECT_THAT(text, HasSubstr("1.safetensors), column 2"));
}

TEST(OpenSource, RefusesWhatIsMissingEmptyOrMixed) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& name) {
    return thrown<std::invalid_argument>([&] { open_source(folder / name); });
  };
  EXPECT_THAT(refusal("none"), HasSubstr("does not exist"));
  std::filesystem::create_directory(folder / "empty");
  EXPECT_THAT(refusal("empty"), HasSubstr("has none"));
  put_file(folder / "list.txt", "\n");
  EXPECT_THAT(refusal("list.txt"), HasSubstr("is empty"));
  put_file(folder / "twice.txt", "snapshots/a.h5\n./snapshots/a.h5\n");
  EXPECT_THAT(refusal("twice.txt"), HasSubstr("has this line twice: ./snapshots/a.h5"));
  put_file(folder / "gone.txt", "gone.h5\n");
  EXPECT_THAT(refusal("gone.txt"), HasSubstr("gone.h5"));
  put_file(folder / "x.dat", "x");
  EXPECT_THAT(refusal("x.dat"), HasSubstr("needs a folder"));
  put_file(folder / "x.bin", "x");
  EXPECT_THAT(refusal("x.bin"),
              HasSubstr("needs one of the formats safetensors, PyTorch, MindSpore"));
  put_file(folder / "v.npy", checkpoints::npy_header_bytes({0}));
  EXPECT_THAT(refusal("v.npy"), HasSubstr("needs a matrix"));
  put_file(folder / "z.npy", checkpoints::npy_header_bytes({0, 5}));
  EXPECT_THAT(refusal("z.npy"), HasSubstr("needs a matrix"));
  EXPECT_THROW(open_files({}), std::invalid_argument);
  // A folder that a merge has made of the others is refused, and what a killed merge left is no
  // snapshot; a file that a later save put beside the index of shards counts in its place.
  for (const auto* name : {"run/step1", "run/step2.tmp", "run/merged"}) {
    std::filesystem::create_directories(folder / name);
    checkpoints::write_safetensors(folder / name / "model.safetensors", {{"w", {1}, {1}}});
  }
  put_file(folder / "run/merged/merge.json", "{}");
  EXPECT_THAT(refusal("run"), HasSubstr("run/merged', the result of a merge"));
  std::filesystem::remove_all(folder / "run/merged");
  put_file(folder / "run/step1/model.safetensors.index.json", "{}");
  for (const auto* name : {"run", "run/step1"})
    EXPECT_EQ(found_at(folder / name),
              std::vector<std::filesystem::path>{folder / "run/step1/model.safetensors"});

  // A Trainer's folder, whose own weights are the last ones, and weights that are codes.
  checkpoints::write_safetensors(folder / "run/ema.safetensors", {{"w", {1}, {1}}});
  EXPECT_THAT(refusal("run"),
              HasSubstr("holds weights and also folders with weights, such as 'step1'"));
  put_file(folder / "codes.safetensors",
           merge::safetensors({{"layer.weight", "F8_E4M3", {2}, "ab"}}));
  EXPECT_THAT(refusal("codes.safetensors"),
              HasSubstr("\"layer.weight\" (F8_E4M3) holds quantised weights"))
      << refusal("codes.safetensors");

  std::filesystem::create_directory(folder / "mixed");
  const layout::Layout layout = small_layout(3);
  const auto snapshot = snapshot_of(layout, Eigen::RowVectorXd::Zero(layout.file_size));
  checkpoints::write_snapshot(folder / "mixed/a.h5", snapshot);
  checkpoints::write_safetensors(folder / "mixed/b.safetensors", {{"w", {1}, {1}}});
  EXPECT_THAT(refusal("mixed"), HasSubstr("only snapshots (.h5) or only weight files"));
}

// Where the integers are read before, this takes an hour: a sparse file has 2^40 of them.
TEST(OpenSource, RefusesQuantisedWeightsBeforeItReadsIntegers) {
  const TemporaryFolder folder;
  const auto file = folder / "codes.safetensors";
  const std::string header =
      R"({"codes":{"dtype":"I8","shape":[1048576,1048576],"data_offsets":[0,1099511627776]},)"
      R"("w":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[1099511627776,1099511627778]}})";
  put_file(file, std::string{static_cast<char>(header.size())} + std::string(7, '\0') + header);
  std::filesystem::resize_file(file, 8 + header.size() + 1099511627778);
  EXPECT_THAT(thrown<std::invalid_argument>([&] { open_source(file); }),
              HasSubstr("\"w\" (F8_E4M3) holds quantised weights"));
}

TEST(OpenSource, TakesWhatAPatternMatches) {
  const TemporaryFolder folder;
  const auto weights_of = [&](const char* step) {
    return folder / "run" / step / "model.safetensors";
  };
  for (const auto* step : {"step10", "step2", "step1", "step3.tmp"}) {
    std::filesystem::create_directories(folder / "run" / step);
    checkpoints::write_safetensors(weights_of(step), {{"w", {1}, {1}}});
  }
  const auto refusal = [&](const char* pattern) {
    return thrown<std::invalid_argument>([&] { found_at(folder / pattern); });
  };
  using Files = std::vector<std::filesystem::path>;
  EXPECT_EQ(found_at(folder / "run/*"),
            (Files{weights_of("step1"), weights_of("step2"), weights_of("step10")}));
  EXPECT_EQ(found_at(folder / "run/step{1,10}"),
            (Files{weights_of("step1"), weights_of("step10")}));
  EXPECT_EQ(open_source(folder / "run/step?")->rows(), 2);
  // Each once; what is unfinished never, whatever the pattern's form.
  EXPECT_EQ(found_at(folder / "run/{step1,step*}").size(), 3U);
  EXPECT_EQ(found_at(folder / "run/step*/").size(), 3U);
  EXPECT_EQ(found_at(folder / "run/*/model.safetensors").size(), 3U);
  EXPECT_THAT(refusal("run/step3*"),
              HasSubstr("only unfinished checkpoints, for example 'step3.tmp'"));
  // A dangling link whose name is a pattern matches itself.
  std::filesystem::create_symlink(folder / "nowhere", folder / "run/link*");
  EXPECT_THAT(refusal("run/li*"), HasSubstr("run/link*' does not exist"));
  // A link to a checkpoint would count twice.
  std::filesystem::create_directory_symlink("step2", folder / "run/last");
  EXPECT_THAT(thrown<std::invalid_argument>([&] { open_source(folder / "run/{step2,last}"); }),
              HasSubstr("are the same files"));
  std::filesystem::remove(folder / "run/last");
  const auto source = open_source(folder / "run/step?");
  checkpoints::write_safetensors(weights_of("step2"), {{"w", {1}, {2}}});
  std::filesystem::last_write_time(weights_of("step2"), {});
  source->require_unchanged(0);
  EXPECT_THAT(
      thrown<std::runtime_error>([&] { selected(*source, {.from = 2})->require_unchanged(0); }),
      HasSubstr("has changed while it was read"));
  // Merges alone are merged again.
  put_file(folder / "run/step2/merge.json", "{}");
  EXPECT_THAT(refusal("run/step?"), HasSubstr("run/step2', the result of a merge"));
  EXPECT_EQ(found_at(folder / "run/step2*"), Files{weights_of("step2")});
  EXPECT_THAT(refusal("run/none*"), HasSubstr("nothing matches"));
}

TEST(OpenSource, SaysWhichStepsAreNotInOrder) {
  const TemporaryFolder folder;
  const layout::Layout layout = small_layout(3);
  const checkpoints::SnapshotStore store(folder / "a", 9);
  std::vector<std::filesystem::path> files;
  for (const int step : {1, 2, 3}) {
    auto snapshot = snapshot_of(layout, Eigen::RowVectorXd::Constant(layout.file_size, step));
    snapshot.step = step;
    files.push_back(store.save(snapshot).path);
  }
  EXPECT_TRUE(open_source(folder / "a")->info().remarks.empty());
  EXPECT_TRUE(open_files(files)->info().remarks.empty());
  // A list is sorted by the steps.
  std::swap(files[1], files[2]);
  put_file(folder / "a/list.txt",
           "snapshot_00000001.h5\nsnapshot_00000003.h5\nsnapshot_00000002.h5\n");
  for (const auto& source : {open_files(files), open_source(folder / "a/list.txt")}) {
    const auto& info = source->info();
    EXPECT_TRUE(info.remarks.empty());
    EXPECT_EQ(info.names[1], files[2].string());
    EXPECT_EQ(info.unordered, "");
  }
  // The file says another step than its name.
  std::filesystem::rename(files[2], folder / "a/snapshot_00000004.h5");
  const auto renamed = open_source(folder / "a")->info();
  ASSERT_EQ(renamed.remarks.size(), 1U);
  EXPECT_THAT(renamed.remarks[0], HasSubstr("00004.h5' says step 4, and the file holds step 2"));
  EXPECT_EQ(renamed.unordered, renamed.remarks[0]);
  files[2] = folder / "a/snapshot_00000004.h5";
  const auto listed = open_files(files)->info();
  EXPECT_EQ(listed.remarks, renamed.remarks);
  EXPECT_EQ(listed.unordered, "");
}

TEST(OpenSource, SaysThatAveragesAreReadBesideRawWeights) {
  const TemporaryFolder folder;
  for (const int step : {1, 2, 3})
    put_file(folder / formatted("step_{}.safetensors", step),
             merge::safetensors(
                 {merge::f32("net.w", {1.0F * step, 2}), merge::f32("ema.w", {1, 2.0F * step})}));
  EXPECT_THAT(open_source(folder.path())->info().remarks,
              ::testing::Contains(HasSubstr("raw weights (net.*) and their average (ema.*)")));
}

/// A mean may be of several runs, and each run counts its own steps.
TEST(OpenSource, ComparesTheStepsOfOneRunAlone) {
  const TemporaryFolder folder;
  const layout::Layout layout = small_layout(3);
  const auto put = [&](const std::string& name, std::int64_t step, const std::string& run) {
    auto snapshot = snapshot_of(layout, Eigen::RowVectorXd::Constant(layout.file_size, 1.0));
    snapshot.step = step;
    snapshot.run_json = nlohmann::json{{"run", {{"identity", run}}}}.dump();
    std::filesystem::create_directories(folder / name);
    checkpoints::write_snapshot(folder / name / "net.h5", snapshot);
  };
  const auto opened = [&] {
    return open_source(folder / "*/net.h5", alone(), Runs::several)->info();
  };
  put("blue", 300, "one");
  put("red", 100, "other");
  const auto several = opened();
  ASSERT_EQ(several.remarks.size(), 1U);
  EXPECT_THAT(several.remarks[0], HasSubstr("the checkpoints are of 2 runs"));
  EXPECT_EQ(several.unordered, "");
  put("red", 100, "one");
  EXPECT_THAT(opened().unordered, HasSubstr("blue/net.h5', which holds step 300, comes before"));
}

TEST(OpenSource, NamesTheSnapshotThatDiffersOrIsDamaged) {
  const TemporaryFolder folder;
  const layout::Layout layout = small_layout(3);
  const layout::Layout other = small_layout(4);
  for (int i = 0; i < 3; ++i) {
    checkpoints::write_snapshot(
        folder / formatted("{}.h5", i),
        snapshot_of(layout, Eigen::RowVectorXd::Constant(layout.file_size, i)));
  }
  checkpoints::write_snapshot(folder / "3.h5",
                              snapshot_of(other, Eigen::RowVectorXd::Zero(other.file_size)));
  std::string text = thrown<std::invalid_argument>([&] { open_source(folder.path()); });
  EXPECT_THAT(text, HasSubstr("3.h5' has another layout than"));
  EXPECT_THAT(text, HasSubstr("parameter 0: expected weight [10,3], received weight [10,4]"));
  std::filesystem::remove(folder / "3.h5");
  std::string bytes = text_of_file(folder / "1.h5");
  bytes[bytes.size() - 20] = static_cast<char>(bytes[bytes.size() - 20] ^ 4);
  put_file(folder / "1.h5", bytes);
  text = thrown<std::runtime_error>([&] { open_source(folder.path()); });
  EXPECT_THAT(text, HasSubstr("1.h5"));
}

}  // namespace
}  // namespace dimred::pca
