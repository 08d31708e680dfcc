#include "merge/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <map>
#include <random>
#include <tuple>

#include "support/byte_progress.h"
#include "support/formatted.h"
#include "tests/merge/checkpoints.h"
#include "tests/tools/bytes_read.h"
#include "tests/tools/words.h"

namespace dimred::merge {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<float> random_values(std::size_t count, int seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (auto& value : values) value = normal(generator);
  return values;
}

std::vector<float> values_of(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

nlohmann::json json_of(const fs::path& file) { return nlohmann::json::parse(text_of_file(file)); }

class Merge : public testing::Test {
 protected:
  fs::path at(const std::string& name) const { return folder / name; }
  Report run(const std::string& source, const Options& options = {}) const {
    return merge({at(source)}, at("out"), options);
  }
  TemporaryFolder folder;
};

std::vector<Stored> model(int seed) {
  return {i64("bn.num_batches_tracked", {seed}),
          f32("bn.running_mean", random_values(4, 100 + seed)),
          f32("head", random_values(300, seed)),
          bf16("body", random_values(1000, 50 + seed))};
}

TEST_F(Merge, OfOneGivesItsBytes) {
  put_checkpoint(at("run/checkpoint-5"), {model(1), {f32("more", {-0.0F, 1e-40F})}});
  put_file(at("run/checkpoint-5/tokenizer.json"), "{}");
  put_file(at("run/checkpoint-5/optimizer.pt"), "x");
  run("run/checkpoint-5");
  for (const auto* name : {"model-00001-of-00002.safetensors",
                           "model-00002-of-00002.safetensors",
                           "config.json",
                           "tokenizer.json"})
    EXPECT_EQ(text_of_file(at("out") / name), text_of_file(at("run/checkpoint-5") / name)) << name;
  auto index = json_of(at("run/checkpoint-5/model.safetensors.index.json"));
  index["metadata"]["total_size"] = 8 + 16 + 1200 + 2000 + 8;
  EXPECT_EQ(text_of_file(at("out/model.safetensors.index.json")), index.dump(2) + "\n");
  EXPECT_FALSE(fs::exists(at("out/optimizer.pt")));
  EXPECT_FALSE(fs::exists(at("out/.plan")));
}

// step_10 and step_100: by number, not by letters; and each value against float64 sums.
TEST_F(Merge, IsTheFloat64SumRoundedOnce) {
  std::vector<std::vector<float>> head, body;
  for (const int step : {9, 10, 100}) {
    put_checkpoint(at("run/step_" + std::to_string(step)), {model(step)});
    head.push_back(random_values(300, step));
    body.push_back(random_values(1000, 50 + step));
  }
  const auto report = run("run", {.recipe = {.coefficients = {.kind = Kind::wma}}});
  std::vector<std::int64_t> steps;
  for (const auto& input : report.inputs) steps.push_back(input.step);
  EXPECT_THAT(steps, ElementsAre(9, 10, 100));
  EXPECT_THAT(report.parts[0].coefficients, ElementsAre(1. / 6, 2. / 6, 3. / 6));
  const auto merged = values_of(bytes_of(at("out/model.safetensors"), "head"));
  for (std::size_t i = 0; i < merged.size(); ++i) {
    const double sum = 1. * head[0][i] + 2. * head[1][i] + 3. * head[2][i];
    ASSERT_EQ(merged[i], static_cast<float>(sum / 6));
  }
  const auto bytes = bytes_of(at("out/model.safetensors"), "body");
  for (std::size_t i = 0; i < 1000; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    double sum = 0;
    for (std::size_t k = 0; k < 3; ++k)
      sum += (k + 1) / 6. * checkpoints::from_bfloat(checkpoints::to_bfloat(body[k][i]));
    const double ulp = std::ldexp(1, std::ilogb(sum) - 7);
    ASSERT_LE(std::abs(checkpoints::from_bfloat(bits) - sum), ulp * (0.5 + 1e-6));
  }
  EXPECT_EQ(bytes_of(at("out/model.safetensors"), "bn.running_mean"), raw(random_values(4, 200)));
  EXPECT_THAT(report.copied, ElementsAre("bn.num_batches_tracked", "bn.running_mean"));
}

// The mean lies a hair above the middle of two bfloat16 (or float16) values, where float32 would
// put it.
TEST_F(Merge, RoundsFloat64AndFloat16Once) {
  const double hair = 0x1p-40;
  const auto f64 = [](double value) { return Stored{"d", "F64", {1}, raw(std::vector{value})}; };
  const auto f16 = [](std::uint16_t bits) {
    return Stored{"h", "F16", {1}, raw(std::vector{bits})};
  };
  put_checkpoint(at("run/step1"), {{f64(1), f16(0x3C00)}});
  put_checkpoint(at("run/step2"), {{f64(1 + 0x1p-7 + hair), f16(0x0001)}});
  run("run");
  EXPECT_EQ(bytes_of(at("out/model.safetensors"), "d"), raw(std::vector{1 + 0x1p-8 + hair / 2}));
  EXPECT_EQ(bytes_of(at("out/model.safetensors"), "h"), raw(std::vector<std::uint16_t>{0x3800}));
  merge({at("run")}, at("brain"), {.dtype = "BF16"});
  EXPECT_EQ(bytes_of(at("brain/model.safetensors"), "d"), raw(std::vector<std::uint16_t>{0x3F81}));
  EXPECT_EQ(bytes_of(at("brain/model.safetensors"), "h"), raw(std::vector<std::uint16_t>{0x3F00}));
}

/// Half of float16's least value is rounded to 0.
TEST_F(Merge, SaysWhichTensorsBecomeZero) {
  const auto remark = [](const std::string& names) {
    return "all values are too small for the type that is written, and became 0: " + names;
  };
  for (const int step : {1, 2}) {
    const float tiny = 1e-9F * static_cast<float>(step);
    put_checkpoint(at("run/step" + std::to_string(step)),
                   {{f32("zero", {0, -0.0F}), f32("tiny", {0, tiny}), f32("some", {tiny, 1})},
                    {f32("lost", std::vector<float>(70'000, -tiny))}});
  }
  EXPECT_THAT(merge({at("run")}, at("half"), {.dtype = "F16"}).remarks,
              ElementsAre(remark("2 tensors (tiny, lost)")));
  EXPECT_THAT(merge({at("run")}, at("brain"), {.dtype = "BF16"}).remarks, ElementsAre());
  EXPECT_THAT(run("run").remarks, ElementsAre());
}

// The element whose sum overflows is summed in a scaled form, its neighbours are not.
TEST_F(Merge, KeepsSmallValuesBesideOnesNearTheEndOfFloat64) {
  const std::vector<std::vector<double>> steps{{1.5e308, 1e-320, 2.447e-308, -1.7e308},
                                               {1.7e308, 3e-320, 2.893e-308, -1.7e308}};
  for (int step : {1, 2})
    put_checkpoint(at(formatted("run/step{}", step)), {{{"d", "F64", {4}, raw(steps[step - 1])}}});
  const std::vector<double> mean{1.6e308, 2e-320, (2.447e-308 + 2.893e-308) / 2, -1.7e308};
  run("run");
  EXPECT_EQ(bytes_of(at("out/model.safetensors"), "d"), raw(mean));
  merge({at("run")}, at("single"), {.block = 1});
  EXPECT_EQ(bytes_of(at("single/model.safetensors"), "d"), raw(mean));
  put_file(at("c"), "-1\n2\n");
  put_checkpoint(at("run/step1"), {{{"d", "F64", {4}, raw(steps[1])}}});
  merge({at("run")}, at("line"), {.recipe = {.file = at("c")}});
  EXPECT_EQ(bytes_of(at("line/model.safetensors"), "d"), raw(steps[1]));
}

TEST_F(Merge, HasTheSameBitsForAnyThreadsBlocksAndShards) {
  for (const int step : {1, 2, 3}) {
    const auto tensors = model(step);
    put_checkpoint(at("whole/step" + std::to_string(step)), {tensors});
    auto halves =
        std::vector<std::vector<Stored>>{{tensors[0], tensors[2]}, {tensors[1], tensors[3]}};
    if (step == 2) std::swap(halves[0], halves[1]);
    if (step == 3) halves = {tensors};
    put_checkpoint(at("cut/step" + std::to_string(step)), halves);
  }
  const Options base{.recipe = {.coefficients = {.kind = Kind::minus_sqrt}}, .threads = 1};
  merge({at("whole")}, at("expected"), base);
  const auto expected = text_of_file(at("expected/model.safetensors"));
  int number = 0;
  for (const std::string source : {"whole", "cut"}) {
    for (const std::int64_t block : {1, 7, 1'000'000}) {
      auto options = base;
      options.block = block;
      options.threads = 3;
      const auto out = at("out" + std::to_string(number++));
      merge({at(source)}, out, options);
      EXPECT_EQ(text_of_file(out / "model.safetensors"), expected) << source << block;
    }
  }
  EXPECT_EQ(json_of(at("out0/merge.json"))["inputs"][1]["tensors"],
            json_of(at("out3/merge.json"))["inputs"][1]["tensors"]);
}

TEST_F(Merge, TakesTypeAndSizeOfShardsAsAsked) {
  put_checkpoint(at("run/step1"), {{bf16("a", {1, 2}), bf16("b", {3}), i64("n", {5})}});
  put_checkpoint(at("run/step2"), {{bf16("a", {2, 2}), bf16("b", {4}), i64("n", {5})}});
  run("run", {.dtype = "F32", .shard_size = 8});
  const auto index = json_of(at("out/model.safetensors.index.json"));
  EXPECT_EQ(index["weight_map"]["a"], "model-00001-of-00003.safetensors");
  EXPECT_EQ(index["metadata"]["total_size"], 8 + 4 + 8);
  EXPECT_EQ(bytes_of(at("out/model-00001-of-00003.safetensors"), "a"), raw(std::vector{1.5F, 2.F}));
  EXPECT_EQ(bytes_of(at("out/model-00002-of-00003.safetensors"), "b"), raw(std::vector{3.5F}));
  EXPECT_EQ(json_of(at("out/config.json"))["torch_dtype"], "float32");
  merge({at("run")}, at("half"), {.dtype = "F16"});
  EXPECT_EQ(bytes_of(at("half/model.safetensors"), "b"), raw(std::vector<std::uint16_t>{0x4300}));
  EXPECT_EQ(json_of(at("half/config.json"))["torch_dtype"], "float16");
  // Eight bytes begin at a multiple of eight, where two and four before them would not.
  EXPECT_EQ(checkpoints::read_safetensors_header(at("half/model.safetensors"))[0].name, "n");
}

TEST_F(Merge, ChoosesBySteps) {
  for (int step = 1; step <= 9; ++step)
    put_checkpoint(at("run/step" + std::to_string(step)), {{f32("a", {float(step)})}});
  const auto steps = [&](const Window& window, const std::string& out) {
    std::vector<std::int64_t> chosen;
    for (const auto& input : merge({at("run")}, at(out), {.recipe = {.window = window}}).inputs)
      chosen.push_back(input.step);
    return chosen;
  };
  EXPECT_THAT(steps({.last = 2}, "a"), ElementsAre(8, 9));
  EXPECT_THAT(steps({.from = 2, .to = 8, .stride = 3}, "b"), ElementsAre(2, 5, 8));
  EXPECT_THAT(steps({.to = 8, .stride = 2, .last = 2}, "c"), ElementsAre(6, 8));
  EXPECT_THAT(thrown<std::invalid_argument>([&] { steps({.from = 10}, "d"); }),
              HasSubstr("with steps 10 and later, received steps 1 to 9"));
}

// A fraction, a loss and a hash are no steps, nor is a part of a number; all names carry one, or
// none does.
TEST_F(Merge, TakesStepsFromNames) {
  using Steps = std::vector<std::int64_t>;
  const Steps counted{1, 2};
  const std::vector<std::tuple<std::string, std::string, Steps>> cases{
      {"checkpoint-10/", "checkpoint-9/", {9, 10}},
      {"./step_3000000000", "step_6000000000/.", {3'000'000'000, 6'000'000'000}},
      {"steps_100", "Steps_20", {20, 100}},
      {"iteration100-loss0.3", "iteration200-loss0.2", {100, 200}},
      {"model_100_v2", "model_200_v2", counted},
      {"model_100_loss0.53", "model_200_loss0.48", counted},
      {"a9", "a10", {9, 10}},
      {"4ed34f7", "9b2c7a3", counted},
      {"epoch0.5", "epoch1.5", counted},
      {"w0.75", "w0.8", counted},
      {"step-1e3", "step-2e3", {1000, 2000}},
      {"timestep_5_ckpt_100", "timestep_5_ckpt_20", {20, 100}},
      {"x20240101123045123456", "x30240101123045123450", counted},
      {"checkpoint-100", "checkpoint-last", counted}};
  int number = 0;
  for (const auto& [one, two, expected] : cases) {
    const auto run = at("run" + std::to_string(number++));
    for (const auto& name : {one, two}) put_checkpoint(run / name, {{f32("a", {1})}});
    const auto found = find_inputs({run / one, run / two});
    Steps steps;
    for (const auto& input : found.inputs) steps.push_back(input.step);
    EXPECT_EQ(steps, expected) << one;
    EXPECT_EQ(found.series.counted, expected == counted) << one;
    put_file(run / "list.txt", formatted("{}\r\n{}\n", one, two));
    EXPECT_EQ(find_inputs({run / "list.txt"}).inputs[1].step, expected[1]) << one;
  }
}

// What is saved in one file leaves the index of shards that were saved before it.
TEST_F(Merge, TakesTheFileBeforeTheIndexAsTransformersDoes) {
  put_checkpoint(at("run/step1"), {{f32("a", {1})}, {f32("b", {1})}});
  put_checkpoint(at("run/step1"), {{f32("a", {7}), f32("b", {8})}});
  run("run");
  EXPECT_EQ(bytes_of(at("out/model.safetensors"), "b"), raw(std::vector{8.0F}));
}

// A merge's own notes are hidden files, which are gone at its end.
TEST_F(Merge, KeepsHiddenShardsUnderAnotherName) {
  put_checkpoint(at("run"), {{f32("a", {1})}, {f32("b", {2})}});
  const auto index = text_of_file(at("run/model.safetensors.index.json"));
  const std::string name = "model-00002-of-00002.safetensors";
  auto hidden = index;
  hidden.replace(hidden.find(name), name.size(), ".b.safetensors");
  put_file(at("run/model.safetensors.index.json"), hidden);
  fs::rename(at("run") / name, at("run/.b.safetensors"));
  run("run");
  const auto places = json_of(at("out/model.safetensors.index.json"))["weight_map"];
  EXPECT_EQ(bytes_of(at("out") / places["b"].get<std::string>(), "b"), raw(std::vector{2.0F}));
}

// A mixture of experts has more tensors than an ordered object may have names.
TEST_F(Merge, TakesTensorsInAnyNumber) {
  constexpr int count = 10'001;
  std::string header, places;
  for (int i = 0; i < count; ++i) {
    const auto separator = i == 0 ? "" : ", ";
    header += formatted(
        R"({}"{}": {{"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}})", separator, i);
    places += formatted(R"({}"{}": "model-1.safetensors")", separator, i);
  }
  header = "{" + header + "}";
  fs::create_directory(at("run"));
  put_file(at("run/model-1.safetensors"), raw(std::vector<std::uint64_t>{header.size()}) + header);
  put_file(at("run/model.safetensors.index.json"),
           formatted(R"({{"metadata": {{"total_parameters": 5}}, "weight_map": {{{}}}}})", places));
  EXPECT_EQ(run("run").tensors, std::size_t{count});
  const auto index = json_of(at("out/model.safetensors.index.json"));
  EXPECT_EQ(index["weight_map"].size(), std::size_t{count});
  EXPECT_EQ(index["metadata"]["total_parameters"], 5);
}

TEST_F(Merge, SaysTheTypeInEachPartOfAConfiguration) {
  put_checkpoint(at("run"), {{bf16("a", {1})}});
  put_file(at("run/config.json"),
           R"({"dtype": "bfloat16", "text_config": {"dtype": "bfloat16", "dtypes": 2},
               "quantization_config": {"dtype": "int8"}})");
  run("run", {.dtype = "F32"});
  EXPECT_EQ(json_of(at("out/config.json")),
            nlohmann::json::parse(
                R"({"dtype": "float32", "text_config": {"dtype": "float32", "dtypes": 2},
                    "quantization_config": {"dtype": "int8"}})"));
}

TEST_F(Merge, TakesTheStepsOfFoldersAbove) {
  for (const int step : {900, 1000})
    put_checkpoint(at("run/step" + std::to_string(step) + "/model"), {{f32("a", {1})}});
  const auto report = run("run/step*/model");
  EXPECT_FALSE(report.counted);
  EXPECT_EQ(report.inputs[1].step, 1000);
}

TEST_F(Merge, SweepsInOneReading) {
  for (int step = 1; step <= 4; ++step)
    put_checkpoint(at("run/step" + std::to_string(step)),
                   {{f32("a", random_values(10'000, step)), i64("n", {7})}});
  const Recipe mean{.window = {.last = 3}};
  const Recipe ema{.coefficients = {.kind = Kind::ema, .decay = .5}, .window = {.to = 3}};
  const auto before = bytes_read_so_far();
  run("run", {.sweep = {mean, ema}});
  const auto read = bytes_read_so_far() - before;
  EXPECT_GE(read, 4 * 40'008);
  EXPECT_LE(read, 4 * 40'008 + 20'000);  // headers, configurations, what was read of /proc
  for (const auto& [number, recipe] : {std::pair{"01", mean}, std::pair{"02", ema}}) {
    merge({at("run")}, at(number), {.recipe = recipe});
    for (const auto* file : {"model.safetensors", "config.json", "merge.json"})
      EXPECT_EQ(text_of_file(at("out") / number / file), text_of_file(at(number) / file)) << file;
  }
}

TEST_F(Merge, SaysWhatItWasMadeOf) {
  put_checkpoint(at("a"), {{f32("w", {1}), f32("w.exp_avg", {5}), i64("n", {1})}});
  put_checkpoint(at("b"), {{f32("w", {2}), f32("w.exp_avg", {6}), i64("n", {1})}});
  fs::create_directory(at("b/1_Pooling"));
  put_file(at("b/value_head.safetensors"), "x");
  const auto report = merge({at("a"), at("b")}, at("out"), {});
  EXPECT_TRUE(report.counted);
  EXPECT_THAT(report.left_out, ElementsAre("w.exp_avg"));
  const auto text = describe(report);
  for (const auto* part : {"mean of 2 checkpoints",
                           "(step 2)",
                           "the names have no steps",
                           "copied from b: 1 tensor (n)\n",
                           "not copied from b: 1_Pooling, value_head.safetensors\n",
                           "training state: 1 tensor (w.exp_avg)"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(text, Not(HasSubstr("hold the same values")));
  fs::copy(at("b"), at("c"));
  EXPECT_THAT(
      describe(merge({at("a"), at("b"), at("c")}, at("twice"), {})),
      HasSubstr(formatted("{} and {} hold the same values\n", at("b").string(), at("c").string())));
  const auto json = json_of(at("out/merge.json"));
  EXPECT_EQ(json["inputs"][0]["path"], at("a").string());
  EXPECT_EQ(json["inputs"][0]["coefficient"], .5);
  EXPECT_EQ(json["inputs"][1]["tensors"]["w"].get<std::string>().size(), 32U);
  EXPECT_NE(json["inputs"][0]["tensors"]["w"], json["inputs"][1]["tensors"]["w"]);
  EXPECT_EQ(json["inputs"][0]["tensors"]["n"], json["inputs"][1]["tensors"]["n"]);
}

// Hugging Face's cache keeps one file for what two revisions have alike, as their index is.
TEST_F(Merge, TakesShardedCheckpointsThatShareTheirIndex) {
  for (const auto* name : {"a", "b"})
    put_checkpoint(at(name), {{f32("w", {name[0] == 'a' ? 1.0F : 3.0F})}, {f32("v", {1})}});
  fs::remove(at("b/model.safetensors.index.json"));
  fs::create_hard_link(at("a/model.safetensors.index.json"), at("b/model.safetensors.index.json"));
  merge({at("a"), at("b")}, at("out"), {});
  EXPECT_EQ(bytes_of(at("out/model-00001-of-00002.safetensors"), "w"), raw(std::vector{2.0F}));
}

// As of `cp`: a script stays executable, what only its owner may read stays so; a configuration
// that says another type is the same file.
TEST_F(Merge, SideFilesKeepTheirPermissions) {
  const auto mask = ::umask(022);
  put_checkpoint(at("a"), {{f32("w", {1})}});
  put_checkpoint(at("b"), {{f32("w", {2})}});
  const std::map<std::string, fs::perms> modes{{"run.py", fs::perms{0755}},
                                               {"shared.py", fs::perms{0777}},
                                               {"licence.txt", fs::perms{0444}},
                                               {"token.txt", fs::perms{0600}},
                                               {"config.json", fs::perms{0640}}};
  for (const auto& [name, mode] : modes) {
    if (name != "config.json") put_file(at("b") / name, name);
    fs::permissions(at("b") / name, mode);
  }
  merge({at("a"), at("b")}, at("out"), {.dtype = "BF16"});
  ::umask(mask);
  for (const auto& [name, mode] : modes)
    EXPECT_EQ(fs::status(at("out") / name).permissions(), mode & fs::perms{0755}) << name;
  EXPECT_EQ(json_of(at("out/config.json"))["torch_dtype"], "bfloat16");
}

/// While it lives, this process may have no more of a resource.
class Limit {
 public:
  Limit(decltype(RLIMIT_FSIZE) resource, rlim_t most) : resource_(resource) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(resource, &before_);
    const rlimit now{most, before_.rlim_max};
    ::setrlimit(resource, &now);
  }
  ~Limit() { ::setrlimit(resource_, &before_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  decltype(RLIMIT_FSIZE) resource_;
  rlimit before_{};
};

TEST_F(Merge, HoldsItsOutputsAgainstTheLimitOfOpenFiles) {
  for (int step = 1; step <= 40; ++step)
    put_checkpoint(at("run/step" + std::to_string(step)), {{f32("a", {1})}, {f32("b", {2})}});
  const Limit limit(RLIMIT_NOFILE, 64);
  EXPECT_THAT(thrown<std::runtime_error>([&] { run("run", {.sweep = std::vector<Recipe>(17)}); }),
              HasSubstr("17 merges write 34 files at a time, but dimred opens at most 32 files "
                        "(half of the limit)"));
  EXPECT_FALSE(fs::exists(at("out.tmp")));
  EXPECT_EQ(run("run", {.sweep = std::vector<Recipe>(16)}).parts.size(), 16U);
}

/// One time for all calls, in whole seconds, which every file system keeps.
fs::file_time_type two_days_ago() {
  using std::chrono::hours, std::chrono::seconds;
  static const auto time =
      std::chrono::floor<seconds>(fs::file_time_type::clock::now()) - hours(48);
  return time;
}

// A disk that is full at the second shard leaves what a kill there leaves.
TEST_F(Merge, GoesOnByShard) {
  for (const int step : {1, 2})
    put_checkpoint(at("run/step" + std::to_string(step)),
                   {{f32("a", random_values(9, step))}, {f32("b", random_values(9000, step))}});
  merge({at("run")}, at("expected"), {});
  const std::string one = "model-00001-of-00002.safetensors";
  const std::string two = "model-00002-of-00002.safetensors";
  const auto stop_at_second = [&] {
    const Limit limit(RLIMIT_FSIZE, 20'000);
    EXPECT_THAT(thrown<std::runtime_error>([&] { run("run"); }), HasSubstr(two));
    EXPECT_FALSE(fs::exists(at("out")));
    fs::last_write_time(at("out.tmp") / one,
                        two_days_ago());  // tells whether it is written once more
  };
  const auto is_left = [&] { return fs::last_write_time(at("out") / one) == two_days_ago(); };
  stop_at_second();
  const auto report = run("run");
  EXPECT_EQ(report.bytes_read, 2 * 36'000);
  EXPECT_EQ(report.bytes_written, static_cast<std::int64_t>(fs::file_size(at("out") / two)));
  EXPECT_TRUE(is_left());
  EXPECT_EQ(text_of_file(at("out") / one), text_of_file(at("expected") / one));
  EXPECT_EQ(text_of_file(at("out") / two), text_of_file(at("expected") / two));
  EXPECT_EQ(text_of_file(at("out/merge.json")), text_of_file(at("expected/merge.json")));
  EXPECT_FALSE(fs::exists(at("out.tmp")));
  // A record that lacks a digest says nothing of its shard.
  for (const auto* record : {"[]", "{}", "[1, 2]", "x"}) {
    fs::remove_all(at("out"));
    stop_at_second();
    put_file(at("out.tmp") / formatted(".{}.json", one), record);
    run("run");
    EXPECT_FALSE(is_left()) << record;
    EXPECT_EQ(text_of_file(at("out") / one), text_of_file(at("expected") / one)) << record;
  }
  // A shard that was damaged since is written again.
  for (const bool head : {true, false}) {
    fs::remove_all(at("out"));
    stop_at_second();
    auto bytes = text_of_file(at("out.tmp") / one);
    (head ? bytes[12] : bytes.back()) ^= 1;
    put_file(at("out.tmp") / one, bytes);
    run("run");
    EXPECT_EQ(text_of_file(at("out") / one), text_of_file(at("expected") / one)) << head;
  }
  // Another plan begins from nothing.
  fs::remove_all(at("out"));
  stop_at_second();
  run("run", {.recipe = {.window = {.last = 1}}});
  EXPECT_EQ(text_of_file(at("out") / one), text_of_file(at("run/step2") / one));
  EXPECT_FALSE(fs::exists(at("out/.plan")));
}

TEST_F(Merge, SaysWhichTensorsBecomeZeroInShardsOfAnEarlierStart) {
  for (const int step : {1, 2})
    put_checkpoint(
        at("run/step" + std::to_string(step)),
        {{f32("a", {1e-9F * static_cast<float>(step)})}, {f32("b", random_values(18'000, step))}});
  {
    const Limit limit(RLIMIT_FSIZE, 20'000);
    EXPECT_THROW(run("run", {.dtype = "F16"}), std::runtime_error);
  }
  EXPECT_TRUE(fs::exists(at("out.tmp/.model-00001-of-00002.safetensors.json")));
  EXPECT_THAT(run("run", {.dtype = "F16"}).remarks,
              ElementsAre(HasSubstr("became 0: 1 tensor (a)")));
}

/// Other files may hold weights of another step.
TEST_F(Merge, CopiesTextsAlone) {
  for (const int step : {1, 2})
    put_checkpoint(at("run/step" + std::to_string(step)), {model(step)});
  const auto texts = words(
      "LICENSE License README.md bpe.codes chat_template.jinja kernel.cu "
      "merges.txt modeling_own.py tokenizer.model tokenizer.model.v3 "
      "vocab.BPE");
  const auto others = words(
      "custom_checkpoint_0.pkl ema.pth.tar latest model.nemo "
      "model.safetensors.bak model.tflite model_state.pdparams "
      "pytorch_model.bin.1 rust_model.ot");
  for (const auto* names : {&texts, &others})
    for (const auto& name : *names) put_file(at("run/step2") / name, "x");
  const auto report = run("run");
  EXPECT_EQ(report.parts[0].not_copied, others);
  for (const auto& name : texts) EXPECT_TRUE(fs::exists(at("out") / name)) << name;
  for (const auto& name : others) EXPECT_FALSE(fs::exists(at("out") / name)) << name;
}

/// Megatron writes one folder for each rank of tensor parallelism.
TEST_F(Merge, SaysThatAFileIsOneOfSeveralParts) {
  for (const std::string rank : {"mp_rank_00", "mp_rank_01"})
    put_checkpoint(at("iter_10") / rank, {{f32("w", {1})}});
  EXPECT_THAT(describe(run("iter_10/mp_rank_00/model.safetensors")),
              HasSubstr("only one of 2 parts of a checkpoint is read, because dimred does not join "
                        "the folders mp_rank_00, mp_rank_01\n"));
  fs::remove_all(at("iter_10/mp_rank_01"));
  EXPECT_THAT(describe(merge({at("iter_10/mp_rank_00")}, at("whole"), {})),
              Not(HasSubstr("only one of")));
}

void put_adapter(const fs::path& folder, int seed) {
  fs::create_directories(folder);
  const std::vector<Stored> factors{
      {"base_model.model.q.lora_A.weight", "F32", {2, 2000}, raw(random_values(4000, seed))},
      {"base_model.model.q.lora_B.weight", "F32", {3, 2}, raw(random_values(6, seed))}};
  put_file(folder / "adapter_model.safetensors", safetensors(factors));
  put_file(folder / "adapter_config.json", R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4})");
}

TEST_F(Merge, SaysAnAdapterBesideWeights) {
  for (const std::string name : {"a", "b"}) {
    put_checkpoint(at(name), {{f32("w", {1})}});
    put_adapter(at(name), 1);
  }
  const auto report = merge({at("a"), at("b")}, at("out"), {});
  EXPECT_THAT(report.remarks,
              ElementsAre(HasSubstr("an adapter lies beside the weights and is not read: "
                                    "adapter_model.safetensors; move it")));
  EXPECT_THAT(report.parts[0].not_copied,
              ElementsAre("adapter_config.json", "adapter_model.safetensors"));
  EXPECT_THAT(report.parts[0].kind, "mean");
  EXPECT_EQ(values_of(bytes_of(at("out/model.safetensors"), "w")), (std::vector<float>{1}));
  EXPECT_FALSE(fs::exists(at("out/adapter_config.json")));
}

/// Weights in one file and in shards, and adapters in shards, with an index and without.
TEST_F(Merge, SaysAnAdapterInShardsBesideWeights) {
  const std::string shard = "adapter_model-00001-of-00002.safetensors";
  const std::string index = "adapter_model.safetensors.index.json";
  for (const auto& named : {index, shard, std::string("adapter_model.bin.index.json")}) {
    for (const std::string name : {"a", "b"}) {
      put_checkpoint(at(name),
                     named == index
                         ? std::vector<std::vector<Stored>>{{f32("w", {1})}, {f32("v", {1})}}
                         : std::vector<std::vector<Stored>>{{f32("w", {1})}});
      put_adapter(at(name), 1);
      fs::rename(at(name) / "adapter_model.safetensors", at(name) / shard);
      if (named != shard) put_file(at(name) / named, R"({"weight_map": {}})");
    }
    const auto report = merge({at("a"), at("b")}, at("out"), {});
    EXPECT_THAT(report.remarks,
                ElementsAre(HasSubstr(
                    "an adapter lies beside the weights and is not read: " + named + "; move it")));
    for (const auto* name : {"a", "b", "out"}) fs::remove_all(at(name));
  }
}

// The disk is full at the second mean, whose factors are twice as large.
TEST_F(Merge, OfAdaptersGoesOnByFile) {
  for (const int step : {1, 2}) put_adapter(at("run/step" + std::to_string(step)), step);
  constexpr std::int64_t bytes_of_one = (4000 + 6) * 4;
  const Options sweep{.sweep = {Recipe{.window = {.last = 1}}, Recipe{}}};
  ByteProgress whole;
  auto options = sweep;
  options.progress = &whole;
  merge({at("run")}, at("expected"), options);
  EXPECT_EQ(whole.total, (2 + 1 + 2) * bytes_of_one);  // digests, and the inputs of each mean
  EXPECT_EQ(whole.done, whole.total);
  const std::string one = "01/adapter_model.safetensors", two = "02/adapter_model.safetensors";
  {
    const Limit limit(RLIMIT_FSIZE, 25'000);
    EXPECT_THAT(thrown<std::runtime_error>([&] { run("run", sweep); }), HasSubstr(two));
  }
  fs::last_write_time(at("out.tmp") / one,
                      two_days_ago());  // tells whether it is written once more
  ByteProgress rest;
  options.progress = &rest;
  const auto report = run("run", options);
  EXPECT_EQ(rest.total, (2 + 2) * bytes_of_one);
  EXPECT_EQ(rest.done, rest.total);
  EXPECT_EQ(report.bytes_read, 2 * bytes_of_one);
  EXPECT_EQ(report.bytes_written, static_cast<std::int64_t>(fs::file_size(at("out") / two)));
  EXPECT_EQ(fs::last_write_time(at("out") / one), two_days_ago());
  for (const auto& name : {one, two, std::string("01/merge.json"), std::string("02/merge.json")})
    EXPECT_EQ(text_of_file(at("out") / name), text_of_file(at("expected") / name)) << name;
  EXPECT_FALSE(fs::exists(at("out.tmp")));
  EXPECT_FALSE(fs::exists(at("out/01/.adapter_model.safetensors.json")));
}

TEST_F(Merge, EndsWhenItIsToStop) {
  for (const int step : {1, 2}) {
    put_adapter(at("adapters/step" + std::to_string(step)), step);
    put_checkpoint(at("run/step" + std::to_string(step)), {model(1)});
  }
  ByteProgress progress;
  progress.stop = true;
  for (const auto* source : {"run", "adapters"})
    EXPECT_EQ(thrown<std::runtime_error>([&] { run(source, {.progress = &progress}); }),
              "[merge] stopped; the same command continues after the last complete shard");
}

// What a merge did not write is neither removed nor taken for its own.
TEST_F(Merge, RefusesWhatIsInTheWayOfItsOutput) {
  put_checkpoint(at("run/step1"), {{f32("a", {1})}});
  fs::create_directories(at("out.tmp/.git/refs"));
  EXPECT_THAT(thrown<std::invalid_argument>([&] { run("run"); }), HasSubstr("'.git'"));
  EXPECT_TRUE(fs::exists(at("out.tmp/.git/refs")));
  fs::remove_all(at("out.tmp/.git"));
  run("run");
  EXPECT_EQ(text_of_file(at("out/model.safetensors")),
            text_of_file(at("run/step1/model.safetensors")));
}

}  // namespace
}  // namespace dimred::merge
