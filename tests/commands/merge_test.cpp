#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/commands/program.h"
#include "tests/merge/checkpoints.h"

namespace dimred::commands {
namespace {

using testing::HasSubstr;

class MergeCommand : public testing::Test {
 protected:
  MergeCommand() {
    for (int step = 1; step <= 3; ++step)
      merge::put_checkpoint(run / ("step_" + std::to_string(step)),
                            {{merge::f32("w", {static_cast<float>(step)})}});
  }
  Outcome merged(const std::string& options) const {
    return dimred_program(
        formatted("merge {} --output {} {}", run.string(), output.string(), options));
  }
  static std::string weight_in(const fs::path& folder) {
    return merge::bytes_of(folder / "model.safetensors", "w");
  }
  TemporaryFolder folder;
  fs::path run = folder / "run", output = folder / "out";
};

TEST_F(MergeCommand, WritesAFolderAndSaysOfWhat) {
  const auto outcome = merged("--last 2");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("mean of 2 checkpoints"));
  EXPECT_THAT(outcome.output, HasSubstr("0.5 of " + (run / "step_3").string() + " (step 3)"));
  EXPECT_EQ(weight_in(output), merge::raw(std::vector{2.5F}));
  const auto shown = dimred_program("inspect " + output.string());
  EXPECT_EQ(shown.code, 0) << shown.output;
  EXPECT_THAT(shown.output,
              HasSubstr("merge.json          whole, its digest and those of the weights verified"));
  EXPECT_THAT(shown.output, HasSubstr("  step 2 "));
  const auto weights = output / "model.safetensors";
  const auto whole = text_of_file(weights);
  auto changed = whole;
  changed.back() = static_cast<char>(changed.back() ^ 1);
  put_file(weights, changed);
  EXPECT_EQ(dimred_program("inspect " + output.string()).code, 1);
  EXPECT_THAT(dimred_program("inspect " + output.string()).output,
              HasSubstr("\"w\" is damaged or"));
  fs::remove(weights);
  put_file(output / "other.safetensors", text_of_file(run / "step_1/model.safetensors"));
  EXPECT_THAT(dimred_program("inspect " + output.string()).output,
              HasSubstr("\"w\" is damaged or"));
  fs::remove(output / "other.safetensors");
  put_file(weights, whole);
  auto text = text_of_file(output / "merge.json");
  put_file(output / "merge.json", text.replace(text.find("0.5"), 3, "0.6"));
  EXPECT_EQ(dimred_program("inspect " + output.string()).code, 1);
}

TEST_F(MergeCommand, TakesSnapshotsAndSeveralSources) {
  const auto snapshots = write_snapshots(folder.path(), 2);
  const auto outcome = dimred_program(formatted("merge {} {} --output {} --quiet",
                                                (snapshots / "snapshot_00000002.h5").string(),
                                                (snapshots / "snapshot_00000001.h5").string(),
                                                output.string()));
  EXPECT_EQ(outcome.output + outcome.errors, "");
  const auto expected = (small_snapshot(1).weights[39] + small_snapshot(2).weights[39]) / 2;
  const auto bias = merge::bytes_of(output / "model.safetensors", "conv.bias");
  EXPECT_EQ(bias.substr(12), merge::raw(std::vector{expected}));
}

TEST_F(MergeCommand, ANameIsNoLineOfItsOwn) {
  for (const auto* name : {"of\nleft out/step_1", "of\nleft out/step_2"})
    merge::put_checkpoint(folder / name, {{merge::f32("w", {1})}});
  const auto outcome = dimred_program(
      formatted("merge '{}' --output {}", (folder / "of\nleft out").string(), output));
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("0.5 of "));
  EXPECT_THAT(outcome.output, testing::Not(HasSubstr("\nleft out")));
  EXPECT_THAT(outcome.output, HasSubstr("of\\x0Aleft out/step_1 (step 1)"));
  EXPECT_THAT(outcome.output, HasSubstr("of\\x0Aleft out/step_2 hold the same values"));
  const auto converted = dimred_program(formatted("convert '{}' --output {}",
                                                  (folder / "of\nleft out/step_1").string(),
                                                  folder / "one.safetensors"));
  EXPECT_THAT(converted.output, HasSubstr("1 tensor of "));
  EXPECT_THAT(converted.output, HasSubstr("of\\x0Aleft out/step_1 in 1 file"));
}

TEST_F(MergeCommand, SaysThatTheCheckpointsHaveNoOrder) {
  fs::rename(run / "step_3", run / "step_1k5");
  const auto outcome = merged("");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output,
              HasSubstr("the checkpoints have no order: dimred cannot read the step number "
                        "\"1k5\"\n"));
  EXPECT_EQ(merged("--kind ema").code, 2);
}

TEST_F(MergeCommand, ConvertMakesNoFolderWithTheNameOfAFile) {
  for (const auto* name : {"w.pt", "w.pth.tar", "w.bin", "w.h5"}) {
    const auto outcome = dimred_program(
        formatted("convert {} --output {}", run / "step_1", (folder / name).string()));
    EXPECT_EQ(outcome.code, 2) << name;
    EXPECT_THAT(outcome.errors, HasSubstr(formatted("as --output, received '{}'", folder / name)));
    EXPECT_FALSE(fs::exists(folder / name));
  }
}

TEST_F(MergeCommand, SweepsByTheLinesOfAFileAndTakesComments) {
  folder.write("c#1.txt", "0.5 # oldest\n0.25\n0.25\n");
  const auto lines = folder.write("sweep.txt",
                                  "# windows\nkind=mean last=1 # newest\n\n"
                                  "kind=ema decay=0.5\t#half\n"
                                  "coefficients=c#1.txt # by hand\n");
  EXPECT_EQ(merged("--sweep " + lines.string()).code, 0);
  EXPECT_EQ(weight_in(output / "01"), merge::raw(std::vector{3.0F}));
  EXPECT_EQ(weight_in(output / "02"), merge::raw(std::vector{17.0F / 7}));
  EXPECT_EQ(weight_in(output / "03"), merge::raw(std::vector{1.75F}));
  const auto wrong = folder.write("wrong.txt", "kind=mean note\n");
  EXPECT_THAT(dimred_program(formatted("merge {} --output {} --sweep {}",
                                       run.string(),
                                       (folder / "more").string(),
                                       wrong.string()))
                  .errors,
              HasSubstr("needs words of the form key=value, received note"));
}

TEST_F(MergeCommand, TakesAndSendsWhatLiesAtUrls) {
  const auto cache = folder / "cache";
  const auto outcome =
      dimred_program(formatted("merge file://{} --output file://{} --store_cache {}",
                               run.string(),
                               output.string(),
                               cache.string()));
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(weight_in(output), merge::raw(std::vector{2.0F}));
  EXPECT_THAT(outcome.output, HasSubstr(formatted("of file://{}/step_3 (step 3)", run.string())));
  EXPECT_THAT(text_of_file(output / "merge.json"),
              HasSubstr(formatted("\"file://{}/step_1\"", run.string())));
}

TEST_F(MergeCommand, RefusesAnOutputWithinWhatItReads) {
  const auto snapshots = write_snapshots(folder.path(), 4);
  const auto cache = " --store_cache " + (folder / "cache").string();
  for (const auto& [source, within] : std::vector<std::pair<std::string, std::string>>{
           {folder.path().string(), snapshots.string()},
           {snapshots.string() + "/*.h5", snapshots.string()},
           {"file://" + run.string(), "file://" + run.string()}}) {
    const auto outcome = dimred_program(formatted(
        "merge '{}' --output {}/mean{}", source, within, source.starts_with("file") ? cache : ""));
    EXPECT_EQ(outcome.code, 2) << source;
    EXPECT_THAT(outcome.errors, HasSubstr("mean' would be inside"));
    EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1);
  }
  EXPECT_FALSE(fs::exists(snapshots / "mean.tmp") || fs::exists(snapshots / "mean"));
  EXPECT_FALSE(fs::exists(run / "mean"));
}

TEST_F(MergeCommand, RefusesInOneLine) {
  const auto lines = folder.write("sweep.txt", "kind=mean\nkind=meen\n");
  const auto idle = folder.write("idle.txt",
                                 "\xEF\xBB\xBF"
                                 "kind=mean decay=0.5\n");
  const auto both = folder.write("both.txt", "kind=ema coefficients=c.txt\n");
  for (const auto& [options, part] : std::vector<std::pair<std::string, std::string>>{
           {"--decay 0.5", "decay has no effect: it needs kind = ema"},
           {"--coefficients c.txt --kind ema",
            "needs either --kind or --coefficients, received both"},
           {"--sweep " + lines.string(), "sweep.txt:2"},
           {"--sweep " + idle.string(),
            "idle.txt:1: [merge] decay has no effect: it needs kind = ema"},
           {"--sweep " + both.string(),
            "both.txt:1: [merge] needs either --kind or --coefficients, received both"},
           {"--sweep " + lines.string() + " --last 2", "--sweep does not work with --last"},
           {"s3://bucket/run", "a URL needs to be the only SOURCE"},
           {"--stride 0", "--stride: needs a whole number >= 1"}}) {
    const auto outcome = merged(options);
    EXPECT_EQ(outcome.code, 2) << options;
    EXPECT_THAT(outcome.errors, HasSubstr(part));
    EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1);
    EXPECT_FALSE(fs::exists(output));
  }
}

}  // namespace
}  // namespace dimred::commands
