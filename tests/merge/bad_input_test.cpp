#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <thread>

#include "merge/merge.h"
#include "support/formatted.h"
#include "tests/merge/checkpoints.h"
#include "tests/tools/words.h"

namespace dimred::merge {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using Tensors = std::vector<Stored>;

/// Two checkpoints that can be merged, for a test to spoil.
class BadInput : public testing::Test {
 protected:
  BadInput() {
    put_checkpoint(one, {good()});
    put_checkpoint(two, {good()});
  }
  static Tensors good() {
    return {i64("n", {3}), f32("a.weight", {1, 2}), bf16("b.weight", {3, 4})};
  }
  static Tensors with(const Stored& tensor, std::size_t place) {
    auto tensors = good();
    tensors[place] = tensor;
    return tensors;
  }
  void spoil(const Tensors& tensors) const { put_checkpoint(spoiled, {tensors}); }

  /// The one line of the refusal; nothing is left under the output's name, nor beside it.
  std::string refusal(const Options& options = {}) const {
    const auto text = error_of([&] { merge({folder / "run"}, folder / "out", options); });
    EXPECT_FALSE(fs::exists(folder / "out")) << text;
    EXPECT_FALSE(fs::exists(folder / "out.tmp")) << text;
    return text;
  }
  void expect_refused(const Tensors& tensors, const std::string& part) const {
    spoil(tensors);
    const auto text = refusal();
    EXPECT_THAT(text, HasSubstr(part));
    EXPECT_THAT(text, HasSubstr(spoiled.string()));
  }

  TemporaryFolder folder;
  fs::path one = folder / "run/step1", two = folder / "run/step2", spoiled = two;
};

TEST_F(BadInput, IsNothingAtFirst) { merge({folder / "run"}, folder / "out", {}); }

TEST_F(BadInput, FilesNameInThePlaceOfAFolder) {
  for (const auto* name : {"out.safetensors", "out.pt"}) {
    EXPECT_THAT(thrown<std::invalid_argument>([&] { merge({folder / "run"}, folder / name, {}); }),
                AllOf(StartsWith("[merge] needs a folder as --output, received the file name '"),
                      HasSubstr("dimred convert can write the folder into one file")));
    EXPECT_FALSE(fs::exists(folder / name));
  }
}

TEST_F(BadInput, TensorsThatDiffer) {
  spoiled = one;  // the latest is what others are held against
  expect_refused({i64("n", {3}), f32("a.weight", {1, 2})}, "has no tensor \"b.weight\"");
  auto tensors = good();
  tensors.push_back(f32("c", {1}));
  expect_refused(tensors, "has the tensor \"c\"");
  expect_refused(with(f32("a.wieght", {1, 2}), 1), "has no tensor \"a.weight\"");
  expect_refused(with(f32("a.weight", {1, 2, 3}), 1), "has \"a.weight\" as F32 [3]");
  expect_refused(with({"a.weight", "F32", {2, 1}, good()[1].bytes}, 1),
                 "has \"a.weight\" as F32 [2, 1]");
  expect_refused(with(bf16("a.weight", {1, 2}), 1), "has \"a.weight\" as BF16 [2]");
}

TEST_F(BadInput, IntegersThatDifferUnlessSomebodySaysWhose) {
  expect_refused(with(i64("n", {4}), 0), "\"n\" (I64) differs");
  EXPECT_THAT(refusal(), HasSubstr("choose the values of one checkpoint with --copy_from"));
  merge({folder / "run"}, folder / "out", {.copy_from = "step1/", .copy_from_given = true});
  const auto relative = fs::relative(folder / "run/step1").string();
  for (const auto& given : {relative, "./" + relative + "/.", (folder / "run/step1").string()})
    EXPECT_EQ(merge({folder / "run"},
                    folder / ("out" + std::to_string(given.size())),
                    {.copy_from = given, .copy_from_given = true})
                  .parts[0]
                  .copied_from,
              folder / "run/step1");
  EXPECT_EQ(bytes_of(folder / "out/model.safetensors", "n"), good()[0].bytes);
}

TEST_F(BadInput, StatisticsThatDifferAreTheLatests) {
  put_checkpoint(one, {{f32("bn.running_var", {NAN}), i64("bn.num_batches_tracked", {7})}});
  expect_refused({f32("bn.running_var", {NAN}), i64("bn.num_batches_tracked", {8})},
                 "\"bn.running_var\" needs finite values");
  spoil({f32("bn.running_var", {1}), i64("bn.num_batches_tracked", {8})});
  merge({folder / "run"}, folder / "out", {});
  EXPECT_EQ(bytes_of(folder / "out/model.safetensors", "bn.num_batches_tracked"),
            i64("", {8}).bytes);
}

TEST_F(BadInput, QuantisedValuesThatDiffer) {
  for (const auto& dtype :
       words("F8_E4M3 F8_E5M2 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ F4 F6_E2M3 F6_E3M2 "
             "U8 I8")) {
    const std::int64_t elements = dtype == "F4" ? 6 : dtype.starts_with("F6") ? 4 : 3;
    put_checkpoint(one, {{{"q", dtype, {elements}, "abc"}}});
    put_checkpoint(two, {{{"q", dtype, {elements}, "abd"}}});
    EXPECT_THAT(refusal({.copy_from = "latest", .copy_from_given = true}),
                HasSubstr(dtype + ") differs"))
        << dtype;
    put_checkpoint(two, {{{"q", dtype, {elements}, "abc"}}});
    const auto out = folder / dtype;
    merge({folder / "run"}, out, {});
    EXPECT_EQ(bytes_of(out / "model.safetensors", "q"), "abc") << dtype;
  }
  put_checkpoint(one, {{{"a.qweight", "I32", {1}, "abcd"}}});
  put_checkpoint(two, {{{"a.qweight", "I32", {1}, "abce"}}});
  EXPECT_THAT(refusal({.copy_from = "latest", .copy_from_given = true}), HasSubstr("quantised"));
}

TEST_F(BadInput, EveryOtherTypeIsKnown) {
  for (const auto& [dtype, size] : std::vector<std::pair<std::string, std::size_t>>{
           {"BOOL", 1}, {"I16", 2}, {"U16", 2}, {"I32", 4}, {"U32", 4}, {"U64", 8}, {"C64", 8}}) {
    for (const auto& step : {one, two})
      put_checkpoint(step, {{{"x", dtype, {2}, std::string(2 * size, '\1')}}});
    merge({folder / "run"}, folder / dtype, {});
    EXPECT_EQ(bytes_of(folder / dtype / "model.safetensors", "x"), std::string(2 * size, '\1'));
  }
}

TEST_F(BadInput, ValuesThatAreNotFinite) {
  for (const float value : {NAN, INFINITY, -INFINITY}) {
    expect_refused(with(f32("a.weight", {1, value}), 1),
                   "\"a.weight\" needs finite values, but element 1 is not finite");
    expect_refused(with(bf16("b.weight", {value, 4}), 2),
                   "\"b.weight\" needs finite values, but element 0 is not finite");
  }
  // Where the other one's block, and one that has no share in the sum, are finite.
  put_file(folder / "c", "1\n0\n");
  EXPECT_THAT(refusal({.recipe = {.file = folder / "c"}}), HasSubstr("step2"));
}

/// A buffer of 0 and -inf that all share is copied; such values among others, or others' are not.
TEST_F(BadInput, MasksThatAreMore) {
  std::vector<float> mask(1000, 0);
  for (std::size_t i = 400; i < mask.size(); i += 3) mask[i] = -INFINITY;
  auto tensors = good();
  tensors.push_back(f32("mask", mask));
  for (const auto& step : {one, two}) put_checkpoint(step, {tensors});
  put_file(folder / "c", "-1\n2\n");
  merge({folder / "run"}, folder / "same", {.recipe = {.file = folder / "c"}, .block = 64});
  EXPECT_EQ(bytes_of(folder / "same/model.safetensors", "mask"), raw(mask));
  merge({folder / "run"}, folder / "half", {.dtype = "BF16"});
  EXPECT_EQ(bytes_of(folder / "half/model.safetensors", "mask"), bf16("", mask).bytes);
  for (const std::size_t at : {0, 999}) {
    auto other = mask;
    other[at] = 1;
    for (const bool both : {false, true}) {
      tensors.back() = f32("mask", other);
      put_checkpoint(two, {tensors});
      tensors.back() = f32("mask", both ? other : mask);
      put_checkpoint(one, {tensors});
      EXPECT_THAT(refusal({.block = 64}), HasSubstr("\"mask\" needs finite values, but element"));
    }
  }
}

TEST_F(BadInput, SumsBeyondTheTypeOfTheOutput) {
  for (const auto& step : {one, two}) put_checkpoint(step, {{f32("a", {1, 65520})}});
  EXPECT_THAT(refusal({.dtype = "F16"}),
              HasSubstr("the sum of \"a\" at element 1 is beyond the range of F16"));
  put_file(folder / "c", "-1\n2\n");
  for (const auto& step : {one, two}) put_checkpoint(step, {{f32("a", {3e38F})}});
  put_checkpoint(one, {{f32("a", {-3e38F})}});
  EXPECT_THAT(refusal({.recipe = {.file = folder / "c"}}), HasSubstr("beyond the range of F32"));
}

TEST_F(BadInput, DamagedShards) {
  const auto whole = text_of_file(two / "model.safetensors");
  put_file(two / "model.safetensors", whole.substr(0, whole.size() - 1));
  EXPECT_THAT(refusal(), HasSubstr("step2/model.safetensors': needs 20 bytes"));
  put_file(two / "model.safetensors", whole + " ");
  EXPECT_THAT(refusal(), HasSubstr("received 21"));
  put_file(two / "model.safetensors", whole.substr(0, 20));
  EXPECT_THAT(refusal(), HasSubstr("needs a header of at most"));
  put_file(two / "model.safetensors", "");
  EXPECT_THAT(refusal(), HasSubstr("needs 8 bytes for the length of the header"));
}

TEST_F(BadInput, FactorsOfAnyProgram) {
  for (const auto& name :
       words("u.to_q_lora.down.weight l.q.loraA.weight l.adapter.linear_in.weight "
             "l.q.oft_blocks l.q.vera_lambda_b")) {
    for (const auto& step : {one, two}) put_checkpoint(step, {{f32(name, {1})}});
    EXPECT_THAT(refusal(), HasSubstr("a mean of factors is not a mean of updates")) << name;
  }
  // A network's own.
  for (const auto* name : {"block.vera_lambda", "block.oft.r"}) {
    for (const auto& step : {one, two})
      put_checkpoint(step, {{f32(name, {1}), f32("fc.weight", {1})}});
    merge({folder / "run"}, folder / name, {});
  }
}

TEST_F(BadInput, ShardsAgainstTheirIndex) {
  const auto tensors = good();
  fs::remove_all(two);
  put_checkpoint(two, {{tensors[0], tensors[1]}, {tensors[2]}});
  const auto index = two / "model.safetensors.index.json";
  const auto text = text_of_file(index);
  merge({folder / "run"}, folder / "fits", {});
  fs::rename(two / "model-00002-of-00002.safetensors", folder / "aside");
  EXPECT_THAT(refusal(), HasSubstr("the shard 'model-00002-of-00002.safetensors', but the folder"));
  put_file(two / "model-00002-of-00002.safetensors", safetensors({f32("x", {1})}));
  EXPECT_THAT(refusal(),
              HasSubstr("lists the tensor \"b.weight\" in the shard model-00002-of-00002"));
  put_file(two / "model-00002-of-00002.safetensors", safetensors({tensors[2], f32("x", {1})}));
  EXPECT_THAT(refusal(),
              HasSubstr("does not list the tensor \"x\" of the shard model-00002-of-00002"));
  put_file(two / "model-00002-of-00002.safetensors", safetensors({tensors[1], tensors[2]}));
  EXPECT_THAT(refusal(), HasSubstr("does not list the tensor \"a.weight\""));
  put_file(index, text.substr(0, 30));
  EXPECT_THAT(refusal(), HasSubstr("model.safetensors.index.json"));
  put_file(index, R"({"weight_map": {"n": "../model.safetensors"}})");
  EXPECT_THAT(refusal(),
              HasSubstr("'../model.safetensors', but the folder of the index has no such file"));
}

TEST_F(BadInput, CheckpointsTwice) {
  const auto merged = [&](const std::vector<fs::path>& sources, const Options& options = {}) {
    return thrown<std::invalid_argument>([&] { merge(sources, folder / "out", options); });
  };
  EXPECT_THAT(merged({one, two, one}), HasSubstr("needs each checkpoint once"));
  fs::create_directory_symlink(one, folder / "run/step3");
  EXPECT_THAT(merged({folder / "run"}), HasSubstr("step3'"));
  fs::remove(folder / "run/step3");
  put_checkpoint(folder / "run/step_02", {good()});
  EXPECT_THAT(merged({folder / "run"}, {.recipe = {.coefficients = {.kind = Kind::ema}}}),
              AllOf(HasSubstr("--kind ema needs the order of the checkpoints"),
                    HasSubstr("both belong to step 2")));
  EXPECT_THAT(merged({folder / "run"}, {.recipe = {.window = {.last = 2}}}),
              HasSubstr("a window of steps needs"));
  EXPECT_EQ(merge({folder / "run"}, folder / "soup", {}).inputs.size(), 3U);
  fs::create_hard_link(one / "model.safetensors", folder / "9.safetensors");
  EXPECT_THAT(merged({one, folder / "9.safetensors"}), HasSubstr("needs each checkpoint once"));
  EXPECT_THAT(merged({}), HasSubstr("received none"));
}

TEST_F(BadInput, ConfigurationsThatDiffer) {
  put_file(two / "config.json", R"({"hidden_size": 8})");
  EXPECT_THAT(refusal(), HasSubstr("step2/config.json' and"));
  merge({folder / "run"}, folder / "allowed", {.allow_different_config = true});
  put_file(two / "config.json",
           R"({"torch_dtype": "float32", "transformers_version": "5", "hidden_size": 4})");
  merge({folder / "run"}, folder / "rewritten", {});  // another order, another writer
  put_file(one / "tokenizer.json", "{}");
  merge({folder / "run"}, folder / "without", {});
  put_file(two / "tokenizer.json", "{\"a\": 1}");
  EXPECT_THAT(refusal(), HasSubstr("tokenizer.json' differ; give --allow_different_config"));
}

TEST_F(BadInput, PlacesThatCannotBe) {
  const auto merged = [&](const fs::path& source) {
    return thrown<std::invalid_argument>([&] { merge({source}, folder / "out", {}); });
  };
  EXPECT_THAT(merged(folder / "none"),
              AllOf(StartsWith("[merge] "), HasSubstr("none' does not exist")));
  fs::create_directory(folder / "empty");
  EXPECT_THAT(
      merged(folder / "empty"),
      AllOf(StartsWith("[merge] "), HasSubstr("'" + (folder / "empty").string() + "' has none")));
  EXPECT_THAT(merged(folder / "none*"), HasSubstr("nothing matches"));
  put_file(folder / "list.txt", "# none\nno run\n");
  EXPECT_THAT(merged(folder / "list.txt"), HasSubstr("no run"));
  put_file(folder / "m.npy", "");
  EXPECT_THAT(merged(folder / "m.npy"), HasSubstr("needs checkpoints with named tensors"));
  put_file(folder / "run/model.safetensors", safetensors(good()));
  EXPECT_THAT(merged(folder / "run"), HasSubstr("holds weights and also folders with weights"));
  fs::remove(folder / "run/model.safetensors");
  EXPECT_EQ(merge({folder / "run/step*"}, folder / "pattern", {}).inputs.size(), 2U);
  // What a killed merge left in the folder is no checkpoint, and a finished one is not taken for
  // one.
  fs::copy(one, folder / "run/other.tmp");
  EXPECT_EQ(merge({folder / "run"}, folder / "merged", {}).inputs.size(), 2U);
  fs::rename(folder / "merged", folder / "run/merged");
  EXPECT_THAT(merged(folder / "run"), HasSubstr("run/merged', the result of a merge"));
  EXPECT_THAT(merged(folder / "run/*"), HasSubstr("run/merged', the result of a merge"));
  EXPECT_THAT(merged(folder / "run/other.tmp"), HasSubstr("is unfinished"));
  fs::remove_all(folder / "run/merged");
  EXPECT_EQ(merge({folder / "run/*"}, folder / "whole", {}).inputs.size(), 2U);
  fs::create_directory(folder / "cut");
  put_file(folder / "cut/model-00001-of-00002.safetensors", safetensors(good()));
  EXPECT_THAT(merged(folder / "cut"), HasSubstr("model.safetensors.index.json and all shards"));
}

TEST_F(BadInput, OutputsThatAreThere) {
  const auto merged = [&](const std::string& output = "out") {
    return thrown<std::invalid_argument>([&] { merge({one}, folder / output, {}); });
  };
  for (const std::string name : {"out", "out.tmp"}) {
    put_checkpoint(folder / name, {good()});
    EXPECT_THAT(merged(),
                HasSubstr(name == "out" ? "exists already" : "out.tmp' for a temporary folder"));
    EXPECT_EQ(text_of_file(folder / name / "model.safetensors"), safetensors(good()));
    fs::remove_all(folder / name);
  }
  put_file(folder / "out.tmp", "");
  EXPECT_THAT(merged(), HasSubstr("out.tmp' for a temporary folder"));
  fs::remove(folder / "out.tmp");
  EXPECT_THAT(merged("none/out"), HasSubstr("needs an existing folder for the output"));
  fs::create_symlink("nowhere", folder / "out");
  EXPECT_THAT(merged(), HasSubstr("exists already"));
}

TEST_F(BadInput, CoefficientsThatDoNotFit) {
  put_file(folder / "c", "0.5\n0.4\n");
  EXPECT_THAT(refusal({.recipe = {.file = folder / "c"}}), HasSubstr("sum to one"));
  EXPECT_THAT(refusal({.copy_from = "step3"}), HasSubstr("received 'step3'"));
  EXPECT_THAT(refusal({.recipe = {.window = {.from = 9}}}), HasSubstr("steps 9 and later"));
  put_file(folder / "c",
           "\xEF\xBB\xBF"
           "0.5\r\n0.5\r\n");
  merge({folder / "run"}, folder / "marked", {.recipe = {.file = folder / "c"}});
  EXPECT_THAT(refusal({.recipe = {.window = {.from = 2, .to = 1}}}), HasSubstr("from <= to"));
}

// A second reading of the sources would find the output among them.
TEST_F(BadInput, OutputsWithinWhatIsMerged) {
  const auto merged = [&](const fs::path& source, const std::string& output) {
    return thrown<std::invalid_argument>([&] { merge({source}, folder / output, {}); });
  };
  fs::create_directory_symlink("run", folder / "link");
  fs::rename(folder / "run", folder / "snapshots");
  fs::create_directory(folder / "of_run");
  fs::rename(folder / "snapshots", folder / "of_run/snapshots");
  fs::create_directory_symlink("of_run/snapshots", folder / "run");
  put_file(folder / "list.txt", "run/step1\nrun/step2\n");
  for (const auto& [source, output] : std::vector<std::pair<std::string, std::string>>{
           {"run", "run/mean"},
           {"run", "run/step1/mean"},
           {"run", "link/mean"},
           {"link", "of_run/snapshots/mean"},
           {"run/step2", "run/step2/mean"},
           {"run/step2/model.safetensors", "run/step2/mean"},
           {"of_run", "of_run/mean"},
           {"of_run", "of_run/snapshots/mean"},
           {"of_run", "run/mean"},
           {"of_run/snapshots/step*", "run/mean"},
           {"list.txt", "run/mean"}})
    EXPECT_THAT(merged(folder / source, output), HasSubstr("would be inside"))
        << source << " " << output;
  EXPECT_EQ(merged(folder / "of_run/snap*/step*/*.safetensors", "of_run/snapshots2"),
            "no exception");
  fs::create_directory(folder / "step9");
  fs::rename(folder / "of_run/snapshots/step2", folder / "step9/step2");
  EXPECT_THAT(merged(folder / "step9/{step1,step2}", "step9/step3"),
              HasSubstr("would match the input's pattern"));
  EXPECT_THAT(merged(folder / "step9/*/*.safetensors", "step9/mean"),
              HasSubstr("would match the input's pattern"));
  merge({folder / "step9/step2"}, folder / "step9/mean", {});
}

// A folder of weights within the folder of a checkpoint would make the checkpoint unreadable, also
// where only the file of its weights is named.
TEST_F(BadInput, OutputsWithinAFolderWhoseFileIsMerged) {
  const auto first = folder / "run/step1", second = folder / "run/step2";
  const auto name = "model.safetensors";
  const auto refused = [&](const std::vector<fs::path>& sources, const std::string& output) {
    return thrown<std::invalid_argument>([&] { merge(sources, folder / output, {}); });
  };
  for (const auto* output : {"run/step1/m", "run/step2/m", "run/step2/../step1/m"})
    EXPECT_THAT(refused({first / name, second / name}, output), HasSubstr("would be inside"))
        << output;
  EXPECT_THAT(refused({folder / "run/*/model.safetensors"}, "run/step1/m"),
              HasSubstr("would be inside"));
  put_file(folder / "files.txt", "run/step1/model.safetensors\nrun/step2/model.safetensors\n");
  EXPECT_THAT(refused({folder / "files.txt"}, "run/step2/m"), HasSubstr("would be inside"));
  EXPECT_EQ(refused({first / name, second / name}, "run/mean"), "no exception");
  // A file under a name of its own has no folder.
  fs::create_directory(folder / "flat");
  for (const auto* file : {"a.safetensors", "b.safetensors"})
    fs::copy_file((file[0] == 'a' ? first : second) / name, folder / "flat" / file);
  EXPECT_EQ(refused({folder / "flat/a.safetensors", folder / "flat/b.safetensors"}, "flat/m"),
            "no exception");
  EXPECT_EQ(refused({folder / "run/step1", folder / "run/step2"}, "out_of_both"), "no exception");
}

TEST_F(BadInput, OutputsWithinARun) {
  fs::create_directories(folder / "other/snapshots");
  fs::create_directory(folder / "other/checkpoints");
  for (const auto* name : {"config.toml", "manifest.json"}) put_file(folder / "other" / name, "");
  for (const auto* output : {"other/snapshots/m", "other/checkpoints/m", "other/best/m"})
    EXPECT_THAT(thrown<std::invalid_argument>([&] { merge({one}, folder / output, {}); }),
                HasSubstr("is a part of the run"))
        << output;
  merge({one}, folder / "other/mean", {});
}

// A training program that still writes it.
TEST_F(BadInput, CheckpointsThatChangeWhileTheyAreRead) {
  const auto file = two / "model.safetensors";
  std::vector<Input> inputs(1);
  inputs[0].path = two;
  inputs[0].weights = file;
  read_tensors(inputs[0], "");
  inputs[0].guard.require_unchanged("merge");
  put_file(file, text_of_file(file));
  fs::last_write_time(file, fs::file_time_type{});
  EXPECT_THAT(thrown<std::runtime_error>([&] { inputs[0].guard.require_unchanged("merge"); }),
              HasSubstr("step2/model.safetensors' has changed while it was read"));
  std::string text;
  std::jthread writer([&](const std::stop_token& stop) {
    for (auto time = fs::last_write_time(file); !stop.stop_requested();) {
      time += std::chrono::milliseconds(10);
      fs::last_write_time(file, time);
    }
  });
  for (int i = 0; i < 100 && text.empty(); ++i) {
    try {
      merge({folder / "run"}, folder / ("out" + std::to_string(i)), {});
    } catch (const std::runtime_error& error) {
      text = error.what();
      EXPECT_TRUE(fs::exists(folder / formatted("out{}.tmp/.plan", i)));
      EXPECT_FALSE(fs::exists(folder / formatted("out{}.tmp/.model.safetensors.json", i)));
    }
  }
  EXPECT_THAT(text, HasSubstr("step2/model.safetensors' has changed while it was read"));
}

TEST_F(BadInput, OptimizerStateAlone) {
  for (const auto& step : {one, two})
    put_checkpoint(step, {{f32("learning_rate", {1}), f32("a.exp_avg", {1})}});
  EXPECT_THAT(refusal(), HasSubstr("holds no tensors to merge"));
}

}  // namespace
}  // namespace dimred::merge
