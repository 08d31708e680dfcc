#include "checkpoints/series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "checkpoints/checkpoint.h"
#include "checkpoints/file_names.h"
#include "checkpoints/part_names.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/steps.h"
#include "support/formatted.h"
#include "tests/tools/owner_alone.h"
#include "tests/tools/temporary_folder.h"
#include "tests/tools/words.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Values = std::vector<std::int64_t>;

/// Checkpoints of one value, as a program leaves them.
class SeriesOfFiles : public testing::Test {
 protected:
  fs::path at(const std::string& name) const { return folder / name; }
  void put(const std::string& file) const {
    fs::create_directories(at(file).parent_path());
    write_safetensors(at(file), {{"w", {1}, {1}}});
  }
  void put_folder(const std::string& name) const { put(name + "/model.safetensors"); }
  std::string refusal(const std::vector<fs::path>& sources) const {
    return thrown<std::invalid_argument>([&] { members(sources, "test"); });
  }
  std::vector<std::string> names_in(const std::string& source) const {
    std::vector<std::string> names;
    for (const auto& member : members({at(source)}, "test").members)
      names.push_back(member.path.filename());
    return names;
  }
  Values steps(const std::vector<std::string>& names) const {
    std::vector<fs::path> paths;
    for (const auto& name : names) paths.emplace_back("/runs/" + name);
    return steps_of(paths).of;
  }

  TemporaryFolder folder;
};

TEST_F(SeriesOfFiles, StepsHaveUnits) {
  EXPECT_EQ(steps({"step-900", "step-1k", "step-2K"}), (Values{900, 1000, 2000}));
  EXPECT_EQ(steps({"step_500M", "step_1B", "step_2t"}),
            (Values{500'000'000, 1'000'000'000, 2'000'000'000'000}));
  EXPECT_EQ(steps({"iter_1.5k", "iter_0.25m-loss3"}), (Values{1500, 250'000}));
  EXPECT_EQ(steps({"w_500M", "w_1B"}), (Values{500'000'000, 1'000'000'000}));
  EXPECT_EQ(steps({"w_1.5k", "w_2k"}), (Values{1500, 2000}));
  // Letters behind the unit that all names have.
  EXPECT_EQ(steps({"step900kimg", "step1Mimg"}), (Values{900'000, 1'000'000}));
  EXPECT_EQ(steps({"ckpt_800Mtok", "ckpt_900Mtok", "ckpt_1Btok"}),
            (Values{800'000'000, 900'000'000, 1'000'000'000}));
  EXPECT_EQ(steps({"step_900tok", "step_1.5ktok"}), (Values{900, 1500}));
  EXPECT_EQ(steps({"step5best", "step6best"}), (Values{5, 6}));
  // More places than the unit has, and a fraction without one.
  EXPECT_EQ(steps({"step_0.0005k", "step_1k"}), (Values{1, 2}));
  EXPECT_EQ(steps({"step0.5", "step1.5"}), (Values{1, 2}));
  EXPECT_EQ(steps({"step9223372036854775807k", "step1k"}), (Values{1, 2}));
}

TEST_F(SeriesOfFiles, LettersThatDifferMakeNoOrder) {
  for (const auto* name : {"ckpt_90m.pt", "ckpt_2h.pt"}) put(name);
  const auto series = members({folder.path()}, "test");
  EXPECT_TRUE(series.counted);
  EXPECT_THAT(thrown<std::invalid_argument>([&] { require_order(series, "test", "--kind ema"); }),
              HasSubstr("letters after the step numbers differ"));
}

TEST_F(SeriesOfFiles, NumbersThatCannotBeReadMakeNoOrder) {
  const auto conflict = [](const std::string& one, const std::string& other) {
    return steps_of({"/runs/" + one + ".pt", "/runs/" + other + ".pt"}).conflict;
  };
  // A letter between digits.
  for (const auto& [one, other, said] : {std::tuple("step_1k5", "step_2k", "1k5"),
                                         std::tuple("step_2k", "step_2k5", "2k5"),
                                         std::tuple("ckpt-1M5", "ckpt-2M", "1m5"),
                                         std::tuple("step_1m200k", "step_2m", "1m200"),
                                         std::tuple("iter2p5k", "iter3k", "2p5")})
    EXPECT_EQ(conflict(one, other), formatted("dimred cannot read the step number \"{}\"", said));
  // Units behind a mark, and letters of other alphabets.
  for (const auto& [one, other] : {std::pair("step_900_k", "step_1_M"),
                                   std::pair("step_900 K", "step_1 M"),
                                   std::pair("step_9-k", "step_10"),
                                   std::pair("ckpt_900_Mtok", "ckpt_1_Btok"),
                                   std::pair("w_900_k", "w_1_M"),
                                   std::pair("step_9000", "step_1万"),
                                   std::pair("step_1万5", "step_9千"),
                                   std::pair("step_9к", "step_1М"),
                                   std::pair("9к", "1М")})
    EXPECT_THAT(conflict(one, other), HasSubstr("letters after the step numbers differ")) << one;
  // Letters of other meanings, and units that are alike.
  EXPECT_EQ(steps({"step100seed1", "step200seed1"}), (Values{100, 200}));
  EXPECT_EQ(steps({"step_5_best", "step_6_mean"}), (Values{5, 6}));
  EXPECT_EQ(steps({"step_20_k", "step_3_k"}), (Values{20, 3}));
  EXPECT_EQ(steps({"第20步", "第3步"}), (Values{20, 3}));
}

TEST_F(SeriesOfFiles, DigitsMayBeGrouped) {
  EXPECT_EQ(steps({"step_900", "step_1,000", "step_1,100"}), (Values{900, 1000, 1100}));
  EXPECT_EQ(steps({"ckpt-1,000,000", "ckpt-20,000"}), (Values{1'000'000, 20'000}));
  EXPECT_EQ(steps({"w_900", "w_1,000"}), (Values{900, 1000}));
  EXPECT_EQ(steps({"step_900", "step_1_000", "step_1_100"}), (Values{900, 1000, 1100}));
  // Numbers of their own.
  EXPECT_EQ(steps({"step_1000_100", "step_900_200"}), (Values{1000, 900}));
  EXPECT_EQ(steps({"step_5_10", "step_6_100"}), (Values{5, 6}));
  EXPECT_EQ(steps({"step_1,00", "step_2,00"}), (Values{1, 2}));
  EXPECT_EQ(steps({"checkpoint_1_500.pt", "checkpoint_2_100.pt"}), (Values{500, 100}));
  EXPECT_EQ(steps({"step_900", "step_1'000", "step_1'000'000"}), (Values{900, 1000, 1'000'000}));
  EXPECT_EQ(steps({"w_900", "w_1'000"}), (Values{900, 1000}));
  EXPECT_EQ(steps({"step_900", "step_1 000", "step_12 000"}), (Values{900, 1000, 12'000}));
  EXPECT_EQ(steps({"checkpoint 900", "checkpoint 1 000"}), (Values{900, 1000}));
  EXPECT_EQ(steps({"step_10 512px", "step_9 512px"}), (Values{10, 9}));
  EXPECT_EQ(steps({"step_5 10", "step_6 100"}), (Values{5, 6}));
}

TEST_F(SeriesOfFiles, StepsMayBePowersOfTen) {
  EXPECT_EQ(steps({"step9e5", "step1e6", "step2e5"}), (Values{900'000, 1'000'000, 200'000}));
  EXPECT_EQ(steps({"step-1.0e+05", "step-2.0e+04"}), (Values{100'000, 20'000}));
  EXPECT_EQ(steps({"ckpt-1.5e3", "ckpt-900", "ckpt-1k"}), (Values{1500, 900, 1000}));
  EXPECT_EQ(steps({"w_9e5", "w_1e6"}), (Values{900'000, 1'000'000}));
  EXPECT_EQ(steps({"9e5-ema", "1.0e+06-ema"}), (Values{900'000, 1'000'000}));
  // A version and an epoch, a hash, half a step, beyond 2^63.
  EXPECT_EQ(steps({"v1e10", "v1e9"}), (Values{10, 9}));
  EXPECT_EQ(steps({"ckpt_1e5f", "ckpt_2e4a"}), (Values{1, 2}));
  EXPECT_EQ(steps({"step2.55e1", "step1e1"}), (Values{1, 2}));
  EXPECT_EQ(steps({"step2e19", "step1e3"}), (Values{1, 2}));
  // Learning rates.
  EXPECT_EQ(steps({"lr1e-3", "lr1e-4"}), (Values{1, 2}));
  EXPECT_EQ(steps({"lr1e-4_step20", "lr1e-4_step10"}), (Values{20, 10}));
}

TEST_F(SeriesOfFiles, NumbersThatAreNoStepsMakeNoOrder) {
  for (const auto& names : {std::vector<fs::path>{"/step_1.000", "/step_2.000", "/step_900"},
                            std::vector<fs::path>{"/iter-1.000.000", "/iter-2.000.000"},
                            std::vector<fs::path>{"/step2e19", "/step1e3"}}) {
    const auto found = steps_of(names);
    EXPECT_TRUE(found.counted) << names[0];
    EXPECT_THAT(found.conflict, HasSubstr("are not all whole numbers below 2^63")) << names[0];
  }
  // Their folders, or another number, give the steps.
  EXPECT_EQ(steps_of({"/step5/step_0.5", "/step6/step_0.5"}).conflict, "");
  EXPECT_EQ(steps({"step5/step_0.5", "step6/step_0.5"}), (Values{5, 6}));
  EXPECT_EQ(steps({"epoch3-step0.5", "epoch2-step1.5"}), (Values{3, 2}));
}

TEST_F(SeriesOfFiles, TheFirstWordWhoseNumbersDifferIsTheStep) {
  EXPECT_EQ(steps({"timestep_5_ckpt_100", "timestep_5_ckpt_20"}), (Values{100, 20}));
  EXPECT_EQ(steps({"max_steps1000_ckpt5", "max_steps1000_ckpt12"}), (Values{5, 12}));
  EXPECT_EQ(steps({"accum_step4_iter100", "accum_step4_iter200"}), (Values{100, 200}));
  // A soup of one step.
  EXPECT_EQ(steps({"step100-epoch1-seed1", "step100-epoch1-seed2"}), (Values{100, 100}));
}

TEST_F(SeriesOfFiles, EpochsThatContradictStepsMakeNoOrder) {
  for (const auto* name : {"run/epoch1_step800.pt", "run/epoch1_step900.pt"}) put(name);
  auto series = members({at("run")}, "test");
  sort_by_step(series);
  EXPECT_EQ(series.unordered, "");
  put("run/epoch2_step100.pt");
  series = members({at("run")}, "test");
  sort_by_step(series);
  EXPECT_EQ(series.members.size(), 3U);
  EXPECT_EQ(series.unordered, "the order by step is not the order by epoch");
  EXPECT_FALSE(steps_of({"/epoch_1/iter_900", "/epoch_2/iter_100"}).conflict.empty());
  EXPECT_FALSE(steps_of({"/checkpoint_1_900", "/checkpoint_2_100"}).conflict.empty());
  EXPECT_TRUE(steps_of({"/checkpoint_1_900", "/checkpoint_2_1100"}).conflict.empty());
}

TEST(NamedEpochs, StandBehindTheirWordInFilesOrInTheNearestFoldersThatDiffer) {
  EXPECT_EQ(epochs_named({"/run/epoch=3-step=300.ckpt", "/run/epoch=10-step=900.ckpt"}),
            (std::vector<std::int64_t>{3, 10}));
  EXPECT_EQ(epochs_named({"/run/epoch3.pt", "/run/epoch3-b.pt"}),
            (std::vector<std::int64_t>{3, 3}));
  EXPECT_EQ(epochs_named({"/run/checkpoint_2_5000.pt", "/run/checkpoint_4_9000.pt"}),
            (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(epochs_named({"/epoch_1/step_9/w.pt", "/epoch_1/step_12/w.pt", "/epoch_2/step_3/w.pt"}),
            (std::vector<std::int64_t>{1, 1, 2}));
  EXPECT_EQ(epochs_named({"/epochs_100/step_1.pt", "/epochs_100/step_2.pt"}),
            (std::vector<std::int64_t>{}));
  EXPECT_EQ(epochs_named({"/run/epoch_1.pt", "/run/final.pt"}), (std::vector<std::int64_t>{}));
}

TEST_F(SeriesOfFiles, StepsStandBehindTheFirstWordThatAllNamesHave) {
  EXPECT_EQ(steps({"epoch=1-step=200", "epoch=2-step=100"}), (Values{200, 100}));
  EXPECT_EQ(steps({"epochs_3", "epochs_12"}), (Values{3, 12}));
  EXPECT_EQ(steps({"iteration_20", "iterations-3"}), (Values{20, 3}));
  EXPECT_EQ(steps({"ckpt_7", "checkpoint_5"}), (Values{1, 2}));
  // fairseq's checkpoint_EPOCH_UPDATES; a name of another form makes no order.
  EXPECT_EQ(steps({"checkpoint_1_5000.pt", "checkpoint_2_10000.pt"}), (Values{5000, 10000}));
  EXPECT_EQ(steps({"checkpoint_1_5000.pt", "checkpoint_1_10000.pt"}), (Values{5000, 10000}));
  EXPECT_EQ(steps({"checkpoint_1_5000.pt", "checkpoint_3.pt"}), (Values{1, 2}));
  EXPECT_EQ(steps({"step1000-tokens5B", "step2000-tokens9B"}), (Values{1000, 2000}));
}

TEST_F(SeriesOfFiles, StepsMayStandInTheNearestFolderThatDiffers) {
  EXPECT_EQ(steps({"global_step_100/actor/huggingface", "global_step_20/actor/huggingface"}),
            (Values{100, 20}));
  EXPECT_EQ(steps({"step2/a", "step1/b"}), (Values{2, 1}));
  EXPECT_EQ(steps({"step1/model_7b", "step2/model_7b"}), (Values{1, 2}));
  EXPECT_EQ(steps({"seed1/step100", "seed2/step100"}), (Values{100, 100}));
  EXPECT_EQ(steps({"step5/x1-2", "step6/x2-3"}), (Values{1, 2}));
}

TEST_F(SeriesOfFiles, StagesHaveNoOrder) {
  const std::vector<std::string> olmo{"stage1-step596057-tokens5001B",
                                      "stage2-ingredient1-step11931-tokens100B"};
  for (const auto& name : olmo) put_folder(name);
  const auto series = members({at(olmo[0]), at(olmo[1])}, "test");
  EXPECT_TRUE(series.counted);
  EXPECT_THAT(thrown<std::invalid_argument>([&] { require_order(series, "test", "--kind ema"); }),
              HasSubstr("stage 1 and stage 2"));
  EXPECT_EQ(steps_of({"/phase1/step9", "/phase2/step3"}).stages, "phase 1 and phase 2");
  EXPECT_EQ(steps_of({"/stage1/step9", "/stage1/step3"}).stages, "");
  EXPECT_EQ(steps_of({"/a/step9", "/stage2/step3"}).stages, "");
  // Below a folder with a stage of its own.
  EXPECT_EQ(steps_of({"/stage1_ablation/stage1/step100", "/stage1_ablation/stage2/step50"}).stages,
            "stage 1 and stage 2");
  EXPECT_EQ(steps_of({"/phase3/x-phase1-step9", "/phase3/x-phase2-step3"}).stages,
            "phase 1 and phase 2");
  EXPECT_EQ(steps_of({"/stage1/step9", "/stage2-from-stage1/step3"}).stages, "stage 1 and stage 2");
  EXPECT_EQ(steps_of({"/a/step9", "/stage1/step3", "/stage2/step5"}).stages, "stage 1 and stage 2");
  EXPECT_EQ(steps_of({"/stage2/stage1/step9", "/stage2/stage01/step3"}).stages, "");
}

TEST_F(SeriesOfFiles, StagesMayHaveNamesForNumbers) {
  for (const auto* name : {"run/pretrain_step900.pt", "run/finetune_step50.pt"}) put(name);
  const auto series = members({at("run")}, "test");
  EXPECT_EQ(series.members.size(), 2U);
  EXPECT_TRUE(series.counted);
  EXPECT_THAT(thrown<std::invalid_argument>([&] { require_order(series, "test", "--kind ema"); }),
              HasSubstr("the names belong to finetuning and pretraining"));
  const auto stages = [](const std::string& one, const std::string& other) {
    return steps_of({"/runs/" + one, "/runs/" + other}).stages;
  };
  EXPECT_EQ(stages("sft/step9", "dpo/step3"), "sft and dpo");
  EXPECT_EQ(stages("model-Pre-Trained-step9", "model-SFT-step3"), "pretraining and sft");
  EXPECT_EQ(stages("mid_training/step9", "post-training/step3"), "midtraining and posttraining");
  EXPECT_EQ(stages("stage1-step9", "finetuning-step3"), "stage 1 and finetuning");
  // The words of one stage, of one run in several, and letters within a word.
  EXPECT_EQ(stages("finetune/step9", "fine_tuned/step3"), "");
  EXPECT_EQ(stages("finetune1/step9", "finetune2/step3"), "");
  EXPECT_EQ(stages("pretrain/step9", "step3"), "");
  EXPECT_EQ(stages("sft/dpo/step9", "sft/dpo/step3"), "");
  EXPECT_EQ(stages("shift-sftp-step9", "shift-dpos-step3"), "");
}

TEST_F(SeriesOfFiles, SeveralOfOneStepHaveNoOrder) {
  for (const auto* seed : {"seed1", "seed2"}) put_folder(std::string(seed) + "/step100");
  auto series = members({at("seed*/step100")}, "test");
  sort_by_step(series);
  EXPECT_EQ(series.members.size(), 2U);
  EXPECT_THAT(series.unordered, HasSubstr("both belong to step 100"));
}

TEST_F(SeriesOfFiles, RunsOfTheSameNumbersHaveTheseSteps) {
  const Values twice{100, 200, 100, 200};
  EXPECT_EQ(steps({"run1/model_100", "run1/model_200", "run2/model_100", "run2/model_200"}), twice);
  EXPECT_EQ(steps({"a_100", "a_200", "b_100", "b_200"}), twice);
  // In folders of epochs, the numbers begin again.
  EXPECT_EQ(steps({"epoch1/part_1", "epoch1/part_2", "epoch2/part_1", "epoch2/part_2"}),
            (Values{1, 2, 3, 4}));
  for (const auto* name : {"seed1/w_100.pt", "seed1/w_200.pt", "seed2/w_100.pt", "seed2/w_200.pt"})
    put(name);
  auto series = members({at("seed1"), at("seed2")}, "test");
  sort_by_step(series);
  EXPECT_EQ(series.members.size(), 4U);
  EXPECT_THAT(series.unordered, HasSubstr("both belong to step 100"));
}

TEST_F(SeriesOfFiles, AListIsSortedByStepsOrSaysWhereTheyFall) {
  for (const auto* name : {"step10.pt", "step20.pt", "step100.pt", "b/step20.pt"}) put(name);
  std::vector<fs::path> as_texts{at("step10.pt"), at("step100.pt"), at("step20.pt")};
  for (const bool is_list : {true, false}) {
    auto series = members(as_texts, "test");
    put_in_order(series, is_list);
    EXPECT_EQ(series.members.back().path, as_texts[1]);
    EXPECT_THAT(series.remarks, IsEmpty());
  }
  // Two of one step have no order but the list's.
  as_texts.push_back(at("b/step20.pt"));
  auto series = members(as_texts, "test");
  put_in_order(series, true);
  EXPECT_EQ(member_weights(series), as_texts);
  EXPECT_THAT(series.remarks,
              ElementsAre(formatted("the list has {} before {}, against the steps in their names; "
                                    "the order of the list counts, because two have the same step",
                                    as_texts[1],
                                    as_texts[2])));
  // Equal steps do not fall, and places are no steps.
  for (const auto* name : {"a/step5.pt", "b/step5.pt", "z.pt", "y.pt"}) put(name);
  for (const auto& [one, other] : {std::pair("a/step5.pt", "b/step5.pt"), {"z.pt", "y.pt"}}) {
    series = members({at(one), at(other)}, "test");
    put_in_order(series, true);
    EXPECT_THAT(series.remarks, IsEmpty()) << one;
  }
}

TEST_F(SeriesOfFiles, SaysWhichSnapshotsHoldOtherStepsThanTheirNamesSay) {
  using Held = std::vector<MemberFacts>;
  EXPECT_EQ(step_difference({{"snapshot_00000100.h5", 100}, {"snapshot_00000200.h5", 250}}),
            "the name of 'snapshot_00000200.h5' says step 200, and the file holds step 250");
  EXPECT_EQ(step_difference({{"run/step_1k.h5", 1001}}),
            "the name of 'run/step_1k.h5' says step 1000, and the file holds step 1001");
  // Other numbers count something else, but not against the steps.
  for (const auto& series : {Held{{"epoch1.h5", 938}, {"epoch2.h5", 1876}},
                             Held{{"a.h5", 5}, {"b.h5", 5}, {"c.pt", {}}},
                             Held{{"step3.pt", {}}},
                             Held{{"a/step4.h5", 4, {"one"}}, {"b/step1.h5", 1, {"other"}}}})
    EXPECT_EQ(step_difference(series), "") << series.front().path;
  EXPECT_EQ(step_difference({{"epoch1.h5", 900}, {"x.pt", {}}, {"epoch2.h5", 300}}),
            "'epoch1.h5', which holds step 900, comes before 'epoch2.h5', which holds step 300");
}

TEST_F(SeriesOfFiles, LeavesOutWhatIsUnfinished) {
  for (const auto& name :
       words("tmp-checkpoint-30 checkpoint-30.incomplete checkpoint-30_tmp "
             ".checkpoint-30 checkpoint-30.partial checkpoint-30~ "
             "checkpoint-30.tmp-17 ~checkpoint-30 checkpoint-30-tmp "
             "checkpoint-30_temp checkpoint-30.temp checkpoint-30.saving "
             "checkpoint-30.inprogress checkpoint-30.crdownload "
             "checkpoint-30.orbax-checkpoint-tmp-1700 checkpoint-30.tmp.4711 "
             "checkpoint-30-tmp-1 checkpoint-30.tmp_abc tmp_checkpoint-30 "
             "_tmp_checkpoint-30 temp_checkpoint-30 tmp.checkpoint-30 "
             "checkpoint-30_incomplete incomplete-checkpoint-30 "
             "checkpoint-30-partial checkpoint-30.unfinished checkpoint-30_saving "
             "checkpoint-30.writing checkpoint-30.downloading "
             "checkpoint-30.filepart checkpoint-30.gstmp checkpoint-30.TMP "
             "TMP-checkpoint-30 checkpoint-30.part2")) {
    EXPECT_TRUE(is_unfinished_name(name)) << name;
    for (const auto& each : words("checkpoint-10 checkpoint-20 " + name)) put_folder(each);
    const auto series = members({folder.path()}, "test");
    EXPECT_EQ(series.members.size(), 2U) << name;
    EXPECT_THAT(series.remarks, ElementsAre(HasSubstr(name + ", an unfinished checkpoint")));
    fs::remove_all(at(name));
  }
}

TEST_F(SeriesOfFiles, KnowsUnfinishedNames) {
  for (const auto* name : {"tmpfs-1",
                           "a.tmpl",
                           "step1.parts",
                           "template",
                           "checkpoint-30.part2x",
                           "checkpoint-30.bak",
                           "checkpoint-30_copy",
                           "step3 (1).safetensors",
                           "model_part_0.pt",
                           "part-00000.bin",
                           "distil_temp_1.pt",
                           "creative-writing.safetensors",
                           "creative_writing.pt",
                           "writing.safetensors",
                           "writing-coach.safetensors",
                           "llama-3-writing.safetensors",
                           "energy-saving.pt",
                           "low-temp.pt",
                           "body_part.pth",
                           "temp_0.7_step3.pt",
                           "progressive_gan_3.pt",
                           "progress-3.pt"})
    EXPECT_FALSE(is_unfinished_name(name)) << name;
  for (const auto* name : {"step1_tmp.safetensors",
                           "tmp_step3.safetensors",
                           "step3.TMP.safetensors",
                           "step3_incomplete.safetensors",
                           "step3-writing.safetensors",
                           "checkpoint-1k_temp.pt",
                           "model.writing.safetensors",
                           "model_temp.pt",
                           "model.safetensors-part",
                           "temp_model.pt",
                           "temp.pt",
                           "saving-checkpoint-30",
                           "step3_in_progress",
                           "step3.in-progress",
                           "in_progress_step3.pt",
                           "checkpoint-30_saving-2"})
    EXPECT_TRUE(is_unfinished_name(name)) << name;
}

// A name that is given is refused for .tmp alone.
TEST_F(SeriesOfFiles, RefusesAnUnfinishedNameThatIsGiven) {
  put_folder("checkpoint-10");
  put_folder("checkpoint-40.tmp");
  EXPECT_THAT(refusal({at("checkpoint-40.tmp")}), HasSubstr("is unfinished"));
  put_file(at("list.txt"), "checkpoint-10\ncheckpoint-40.tmp\n");
  EXPECT_THAT(refusal({at("list.txt")}), HasSubstr("checkpoint-40.tmp' is unfinished"));
  put_folder("checkpoint-40_tmp");
  EXPECT_EQ(members({at("checkpoint-40_tmp")}, "test").members.size(), 1U);
}

TEST_F(SeriesOfFiles, LeavesOutWhatIsStillLoaded) {
  for (const auto* name : {"step1.safetensors", "step2.safetensors", "step3.safetensors"})
    put(name);
  put_file(at("step3.safetensors.aria2"), "");
  put("step4.safetensors.crdownload");
  put_folder("@eaDir");
  const auto of_aria2 =
      HasSubstr("step3.safetensors, an unfinished checkpoint, as step3.safetensors.aria2");
  const auto series = members({folder.path()}, "test");
  EXPECT_EQ(series.members.size(), 2U);
  EXPECT_THAT(
      series.remarks,
      ElementsAre(of_aria2, HasSubstr("step4.safetensors.crdownload, an unfinished checkpoint")));
  const auto matched = members({at("*")}, "test");
  EXPECT_EQ(matched.members.size(), 2U);
  EXPECT_THAT(matched.remarks, Contains(of_aria2));
  for (const auto* name : {"run/checkpoint-10", "run/checkpoint-20", "run/checkpoint-30"})
    put_folder(name);
  put_file(at("run/checkpoint-30/model.safetensors.aria2"), "");
  EXPECT_THAT(names_in("run"), ElementsAre("checkpoint-10", "checkpoint-20"));
  put_folder("run/checkpoint-40_tmp");
  EXPECT_THAT(members({at("run/checkpoint-[124]*/model.safetensors")}, "test").remarks,
              ElementsAre(HasSubstr("checkpoint-40_tmp, an unfinished checkpoint")));
}

TEST_F(SeriesOfFiles, LeavesOutWhatAMarkCallsUnfinished) {
  for (const auto* name : {"run/step=1.ckpt", "run/step=2.ckpt", "run/step=3.ckpt"}) put(name);
  put_file(at("run/step=3-unfinished"), "");
  put_file(at("run/step=4-unfinished"), "");
  const auto of_mark =
      HasSubstr("step=3.ckpt, an unfinished checkpoint, as step=3-unfinished says");
  EXPECT_THAT(names_in("run"), ElementsAre("step=1.ckpt", "step=2.ckpt"));
  EXPECT_THAT(members({at("run")}, "test").remarks, ElementsAre(of_mark));
  EXPECT_THAT(names_in("run/*"), ElementsAre("step=1.ckpt", "step=2.ckpt"));
  EXPECT_THAT(members({at("run/*.ckpt")}, "test").remarks, ElementsAre(of_mark));
  for (const auto* name : {"of/checkpoint-10", "of/checkpoint-20", "of/checkpoint-30"})
    put_folder(name);
  put_file(at("of/checkpoint-30-unfinished"), "");
  EXPECT_THAT(names_in("of"), ElementsAre("checkpoint-10", "checkpoint-20"));
  // A folder is no mark, and a path that is named is taken.
  fs::remove(at("of/checkpoint-30-unfinished"));
  put_folder("of/checkpoint-30-unfinished");
  EXPECT_THAT(names_in("of"), ElementsAre("checkpoint-10", "checkpoint-20", "checkpoint-30"));
  EXPECT_EQ(members({at("run/step=3.ckpt")}, "test").members.size(), 1U);
}

TEST_F(SeriesOfFiles, SaysThatThereAreOnlyUnfinishedOnes) {
  for (const auto* name : {"run/partial_fc_1.pt", "run/partial_fc_2.pt"}) put(name);
  for (const auto& source : {at("run"), at("run/*.pt")})
    EXPECT_THAT(refusal({source}),
                HasSubstr(formatted("'{}' has only unfinished checkpoints, for example "
                                    "'partial_fc_1.pt' (the name marks it as unfinished); give "
                                    "finished checkpoints",
                                    source)));
  EXPECT_EQ(members({at("run/partial_fc_1.pt")}, "test").members.size(), 1U);
  put("of/step1.safetensors.aria2");
  put("of/step1.safetensors");
  EXPECT_THAT(refusal({at("of")}), HasSubstr("(step1.safetensors.aria2 marks it as unfinished)"));
  put("loaded/step1.safetensors.crdownload");
  EXPECT_THAT(refusal({at("loaded")}), HasSubstr("for example 'step1.safetensors.crdownload'"));
  // What is no checkpoint.
  for (const auto* name : {"logs/tmp_notes", "logs/.hidden"}) put(name);
  EXPECT_THAT(refusal({at("logs")}), HasSubstr("has none"));
}

TEST_F(SeriesOfFiles, TakesNamesOfAnyLength) {
  for (const char last : {'1', '2'})
    put(formatted("run/step{}{}.safetensors", std::string(231, '0'), last));
  EXPECT_EQ(members({at("run")}, "test").members.size(), 2U);
  EXPECT_EQ(type_at(at(std::string(300, 'a'))), fs::file_type::not_found);
}

TEST_F(SeriesOfFiles, FoldersOfSeveralNetworksAreRefused) {
  for (const auto* step : {"run/checkpoint-10", "run/checkpoint-20"}) {
    put_folder(std::string(step) + "/text_encoder");
    put_folder(std::string(step) + "/text_encoder_2");
    put(std::string(step) + "/unet/diffusion_pytorch_model.safetensors");
    put(std::string(step) + "/optimizer_0/w.bin");
  }
  const std::string folders = "in the folders text_encoder, text_encoder_2, unet; give";
  EXPECT_THAT(refusal({at("run/checkpoint-*")}), HasSubstr(folders));
  EXPECT_THAT(refusal({at("run/checkpoint-10")}), HasSubstr(folders));
  EXPECT_EQ(members({at("run/*/unet/*")}, "test").members.size(), 2U);
  EXPECT_EQ(members({at("run/*/text_encoder")}, "test").members.size(), 2U);
  // Tokens are no weights.
  for (const auto* name : {"runs/adam", "runs/sgd"}) put_folder(name);
  put_file(at("runs/data/train.bin"), std::string(1000, '\7'));
  EXPECT_EQ(members({at("runs")}, "test").members.size(), 2U);
  // Beside a series, they are named.
  for (const auto* name : {"many/checkpoint-10", "many/checkpoint-20"}) put_folder(name);
  put("many/samples/latents.pt");
  put("many/.cache/latents.pt");
  put_file(at("many/logs"), "");
  const auto series = members({at("many")}, "test");
  EXPECT_EQ(series.members.size(), 2U);
  EXPECT_THAT(series.remarks,
              ElementsAre(EndsWith("many/samples: the folder has no weight file with a known "
                                   "name")));
}

TEST_F(SeriesOfFiles, NetworksOfDifferentRolesAreNoSeries) {
  const std::vector<std::pair<std::string, std::string>> apart{
      {"policy_step10.pt", "value_step10.pt"},
      {"actor-20.pt", "critic-20.pt"},
      {"actor/model.safetensors", "critic/model.safetensors"},
      {"generator_10.safetensors", "discriminator_10.safetensors"},
      {"5_net_G.pth", "5_net_D.pth"},
      {"5_net_G_A.pth", "5_net_G_B.pth"},
      {"G_AB_10.pth", "G_BA_10.pth"},
      {"teacher_epoch3.pt", "student_epoch9.pt"},
      {"question_encoder/model.safetensors", "ctx_encoder/model.safetensors"},
      {"coarse_1000.pt", "fine_1000.pt"},
      {"high_noise_model/model.safetensors", "low_noise_model/model.safetensors"},
      {"user_tower.pt", "item_tower.pt"},
      {"draft_model/model.safetensors", "target_model/model.safetensors"},
      {"encoder_q.pt", "encoder_k.pt"},
      {"rgb_step10.pt", "flow_step10.pt"},
      {"G_100.pt", "D_100.pt"},
      {"policy/model.safetensors", "ref_model/model.safetensors"},
      {"qf1_step10.pt", "qf2_step10.pt"},
      {"q1_100.pt", "q2_100.pt"},
      {"G_step100.pt", "D_step100.pt"},
      {"netG_A2B.pth", "netG_B2A.pth"},
      {"q_encoder.pt", "k_encoder.pt"},
      {"query_encoder.pt", "key_encoder.pt"},
      {"step10.pt", "step10_ema.pt"},
      {"step10.pt", "step10-EMA.pt"},
      {"model010000.pt", "ema_0.9999_010000.pt"},
      {"critic_step10.pt", "critic_target_step10.pt"}};
  for (const auto& [one, other] : apart) {
    for (const auto& name : {one, other}) put("run/" + name);
    for (const auto& source : {std::vector{at("run")},
                               std::vector{at("run") / (one.find('/') == one.npos ? "*" : "*/*")},
                               std::vector{at("run") / one, at("run") / other}})
      EXPECT_THAT(refusal(source), HasSubstr("have different roles")) << one;
    put_file(at("all.txt"), formatted("run/{}\nrun/{}", one, other));
    const auto listed = members({at("all.txt")}, "test");
    EXPECT_EQ(listed.members.size(), 2U) << one;
    EXPECT_THAT(listed.remarks, Contains(HasSubstr("may be different networks"))) << one;
    fs::remove_all(at("run"));
  }
  for (const auto* name : {"run/step5/actor", "run/step5/critic"}) put_folder(name);
  EXPECT_THAT(refusal({at("run/*/*")}), HasSubstr("the words \"actor\" and \"critic\""));
  EXPECT_EQ(members({at("run/*/actor")}, "test").members.size(), 1U);
}

TEST_F(SeriesOfFiles, RunsOfOneRoleAreASoup) {
  const std::vector<std::pair<std::string, std::string>> together{
      {"policy_seed0_step10.pt", "policy_seed1_step10.pt"},
      {"seed0/actor/step10.pt", "seed1/policy/step10.pt"},
      {"actor_critic_0.pt", "actor_critic_1.pt"},
      {"student_of_teacher_1.pt", "student_2.pt"},
      {"text_encoder/model.safetensors", "text_encoder_2/model.safetensors"},
      {"baseline.pt", "mixup_ema.pt"},
      {"ema_0.99_step10.pt", "ema_0.999_step10.pt"},
      {"net_g/step1.pt", "net_g/step2.pt"},
      {"soup_g.pt", "soup_d.pt"},
      {"model_g_100.pt", "model_d_100.pt"},
      {"G_100.pt", "G_200.pt"},
      {"draft_step10.pt", "draft_step20.pt"},
      {"target_step10.pt", "target_step20.pt"},
      {"encoder_q.pt", "encoder_q2.pt"},
      {"model_q1_100.pt", "model_q2_100.pt"},
      {"q1_100.pt", "q1_200.pt"},
      {"run_k.pt", "run_q.pt"},
      {"rgb_flow_1.pt", "rgb_flow_2.pt"},
      {"lr_value_0.1.pt", "lr_value_0.2.pt"}};
  for (const auto& [one, other] : together) {
    for (const auto& name : {one, other}) put("run/" + name);
    const auto series = members({at("run") / one, at("run") / other}, "test");
    EXPECT_EQ(series.members.size(), 2U) << one;
    EXPECT_THAT(series.remarks, IsEmpty()) << one;
    fs::remove_all(at("run"));
  }
  // What all paths have above them says nothing of a member.
  put("teacher/student_1.pt");
  put("teacher/student_2.pt");
  EXPECT_EQ(members({at("teacher")}, "test").members.size(), 2U);
}

TEST_F(SeriesOfFiles, APatternHasNoFoldersOfAnyDepth) {
  put_folder("run/step1");
  EXPECT_THAT(refusal({at("run/**/model.safetensors")}),
              HasSubstr("needs a pattern without **, received '"));
}

TEST_F(SeriesOfFiles, PlainFilesMayBeCalledArchives) {
  for (const auto* name : {"run/checkpoint-1.pth.tar", "run/checkpoint-10.pth.tar"}) put(name);
  put("run/model_best.pth.tar");
  put("run/optimizer.pth.tar");
  put_file(at("run/code.tar"), "");
  const auto series = members({at("run")}, "test");
  EXPECT_THAT(member_weights(series),
              ElementsAre(at("run/checkpoint-1.pth.tar"), at("run/checkpoint-10.pth.tar")));
  EXPECT_EQ(series.members.back().step, 10);
  EXPECT_EQ(bare_name("run/checkpoint-1.pth.tar"), "checkpoint-1");
}

TEST_F(SeriesOfFiles, TheOnlyShardIsWhole) {
  put_folder("run/checkpoint-1");
  put("run/checkpoint-2/model-00001-of-00001.safetensors");
  put("run/checkpoint-3/pytorch_model-00001-of-00001.bin");
  EXPECT_THAT(names_in("run"), ElementsAre("checkpoint-1", "checkpoint-2", "checkpoint-3"));
  const auto weights = at("run/checkpoint-2/model-00001-of-00001.safetensors");
  EXPECT_EQ(look(at("run/checkpoint-2")).weights, weights);
  EXPECT_EQ(members({weights}, "test").members.size(), 1U);
  EXPECT_TRUE(is_customary_name(weights));
  put("run/checkpoint-3/pytorch_model-00002-of-00002.bin");
  EXPECT_EQ(look(at("run/checkpoint-3")).weights.filename(), "pytorch_model-00001-of-00001.bin");
}

TEST_F(SeriesOfFiles, ARefusedSeriesNamesAnAptMember) {
  const auto refused = [&](const std::string& source) {
    return thrown<std::invalid_argument>([&] { open_checkpoint(at(source)); });
  };
  for (const auto* name : {"run/step2.pt", "run/step10.pt", "of/data.pt", "of/model.pt"}) put(name);
  EXPECT_THAT(refused("run"),
              HasSubstr(formatted("such as the newest, '{}'", at("run/step10.pt"))));
  // Without steps none is the newest.
  EXPECT_THAT(refused("of"), HasSubstr("give only one checkpoint (data.pt, model.pt), or merge"));
  put("one/pytorch_model_fsdp.bin");
  EXPECT_THAT(refused("one"),
              HasSubstr(formatted("finds only '{}'; give the second path",
                                  at("one/pytorch_model_fsdp.bin"))));
  // A cache of Hugging Face's hub.
  for (const auto* commit : {"aaa", "bbb"}) put_folder(formatted("hub/snapshots/{}", commit));
  EXPECT_THAT(refused("hub"), HasSubstr("give only one checkpoint (aaa, bbb), or merge"));
  fs::create_directory(at("hub/refs"));
  put_file(at("hub/refs/main"), "aaa");
  EXPECT_THAT(refused("hub"),
              HasSubstr(formatted("such as '{}', which refs/main", at("hub/snapshots/aaa"))));
}

TEST_F(SeriesOfFiles, SaysWhichFilesHaveAnotherFormat) {
  for (const auto* name : {"step1.safetensors", "step2.safetensors"}) put(name);
  // Other copies of members, notes, and files of another shape.
  for (const auto* name : {"step1.pt", "step2.msgpack", "step3.json", "optimizer3.pt", "README"})
    put_file(at(name), "");
  EXPECT_THAT(members({folder.path()}, "test").remarks, IsEmpty());
  for (const auto* name :
       {"step3.pt", "step3.SAFETENSORS", "step3.msgpack", "step3.nemo", "step3.safetensors.gz"}) {
    put_file(at(name), "");
    const auto series = members({folder.path()}, "test");
    EXPECT_EQ(series.members.size(), 2U) << name;
    EXPECT_THAT(series.remarks,
                ElementsAre(HasSubstr(formatted("than the other checkpoints: {}", name))));
    fs::remove(at(name));
  }
  for (const auto* name : {"run/checkpoint-10", "run/checkpoint-20"}) put_folder(name);
  put_file(at("run/checkpoint-30"), "");
  put_file(at("run/checkpoint-40.tar.gz"), "");
  EXPECT_THAT(
      members({at("run")}, "test").remarks,
      ElementsAre(HasSubstr("than the other checkpoints: checkpoint-30, checkpoint-40.tar.gz")));
}

TEST_F(SeriesOfFiles, SaysWhichCheckpointsCannotBeRead) {
  for (const auto* name : {"checkpoint-10", "checkpoint-20"}) put_folder(name);
  const auto expect_remark = [&](const std::string& part) {
    const auto series = members({folder.path()}, "test");
    EXPECT_EQ(series.members.size(), 2U) << part;
    ASSERT_EQ(series.remarks.size(), 1U) << part;
    EXPECT_THAT(series.remarks[0], HasSubstr("checkpoint-30"));
    EXPECT_THAT(series.remarks[0], HasSubstr(part));
    fs::remove_all(at("checkpoint-30"));
    fs::create_directory(at("checkpoint-30"));
  };
  fs::create_directory(at("checkpoint-30"));
  expect_remark("no weight file with a known name");
  fs::create_symlink("../nowhere", at("checkpoint-30/model.safetensors"));
  expect_remark("the target of the link model.safetensors does not exist");
  put("checkpoint-30/model-00001-of-00002.safetensors");
  expect_remark("is only a part of a checkpoint");
  put("checkpoint-30/global_step30/mp_rank_01_model_states.pt");
  expect_remark("is only a part of a checkpoint");
  put("checkpoint-30/__0_0.distcp");
  expect_remark("needs a .metadata file");
  fs::create_symlink("model.safetensors", at("checkpoint-30/model.safetensors"));
  expect_remark("the link model.safetensors leads back to itself");
  fs::create_directory(at("checkpoint-30/model.safetensors"));
  expect_remark("the path model.safetensors is a folder");
  ASSERT_EQ(::mkfifo(at("checkpoint-30/pytorch_model.bin").c_str(), 0600), 0);
  expect_remark("the path pytorch_model.bin is a pipe");
  // Other weights are no substitute for what a link lacks.
  for (const auto& [link, other] :
       {std::pair{"model.safetensors.index.json", "adapter_model.safetensors"},
        std::pair{"model.safetensors", "pytorch_model.bin"},
        std::pair{"pytorch_model.bin.index.json", "adapter_model.bin"}}) {
    fs::create_symlink("gone", at("checkpoint-30") / link);
    put(std::string("checkpoint-30/") + other);
    EXPECT_THAT(refusal({at("checkpoint-30")}),
                HasSubstr(formatted("the target of the link {} does not exist", link)));
    expect_remark(formatted("the target of the link {} does not exist", link));
  }
  // The links are folders'.
  fs::remove(at("checkpoint-30"));
  fs::create_symlink("nowhere", at("checkpoint-30"));
  EXPECT_THAT(members({folder.path()}, "test").remarks,
              ElementsAre(EndsWith("checkpoint-30: the target of the link does not exist")));
  fs::remove(at("checkpoint-30"));
  fs::create_symlink("checkpoint-30", at("checkpoint-30"));
  EXPECT_THAT(members({folder.path()}, "test").remarks,
              ElementsAre(EndsWith("checkpoint-30: the link leads back to itself")));
  // Folders of another name are no members.
  fs::remove_all(at("checkpoint-30"));
  fs::create_directory(at("logs"));
  EXPECT_THAT(members({folder.path()}, "test").remarks, IsEmpty());
}

TEST_F(SeriesOfFiles, UnreadableCheckpointsMayHaveStepsOfAnotherForm) {
  for (const auto* name : {"checkpoint-10", "checkpoint-20"}) put_folder(name);
  for (const auto& name : words("checkpoint-1k checkpoint-1,030 checkpoint-9e5 checkpoint_30 "
                                "Checkpoint-30 checkpoint-30-last checkpoint-30-interrupted")) {
    put(name + "/model-00001-of-00002.safetensors");
    EXPECT_THAT(members({folder.path()}, "test").remarks, ElementsAre(HasSubstr(name))) << name;
    fs::remove_all(at(name));
  }
  // What belongs to a member, and others.
  for (const auto* name : {"checkpoint-10-eval", "checkpoint-20.logs", "eval-30", "checkpoints"})
    fs::create_directory(at(name));
  EXPECT_THAT(members({folder.path()}, "test").remarks, IsEmpty());

  for (const auto* name : {"run/step_1.safetensors", "run/step_900.safetensors"}) put(name);
  fs::create_symlink("nowhere", at("run/step_2k.safetensors"));
  put_file(at("run/step_1k.pt"), "");
  put_file(at("run/step_900.msgpack"), "");
  EXPECT_THAT(members({at("run")}, "test").remarks,
              ElementsAre(HasSubstr("step_2k.safetensors: the target of the link does not exist"),
                          EndsWith("in another format than the other checkpoints: step_1k.pt")));
}

// Programs call copies of numbered checkpoints so, and the last ones, too.
TEST_F(SeriesOfFiles, AStepWithAWordBehindItIsAStep) {
  for (const auto* name : {"step100.pt", "step200.pt", "step300_best.pt", "final.pt"}) put(name);
  const auto series = members({folder.path()}, "test");
  EXPECT_THAT(member_weights(series),
              ElementsAre(at("step100.pt"), at("step200.pt"), at("step300_best.pt")));
}

TEST_F(SeriesOfFiles, LeavesOutWhatAWordCallsBesideSteps) {
  for (const auto& name :
       words("checkpoint-last checkpoint-best checkpoint_final checkpoint-latest "
             "latest best_model checkpoint-best-0.93")) {
    for (const auto& each : words("checkpoint-100 checkpoint-200 " + name)) put_folder(each);
    for (const auto& source : {folder.path(), at("*")}) {
      const auto series = members({source}, "test");
      EXPECT_THAT(member_weights(series),
                  ElementsAre(at("checkpoint-100/model.safetensors"),
                              at("checkpoint-200/model.safetensors")));
      EXPECT_FALSE(series.counted) << name;
      ASSERT_EQ(series.remarks.size(), 1U) << name;
      EXPECT_THAT(series.remarks[0],
                  HasSubstr(formatted(
                      "left out {}: the name has no step, but checkpoint-200 has one", at(name))));
    }
    fs::remove_all(at(name));
  }
  // A link to another member, which would count twice.
  fs::create_directory_symlink("checkpoint-200", at("checkpoint-last"));
  EXPECT_EQ(members({folder.path()}, "test").members.size(), 2U);
  // Paths and lines of a list are the user's own choice.
  const std::vector<fs::path> named{at("checkpoint-100"), at("checkpoint-last")};
  EXPECT_EQ(members(named, "test").members.size(), 2U);
  put_file(at("list.txt"), "checkpoint-100\ncheckpoint-200\ncheckpoint-last\n");
  EXPECT_THAT(names_in("list.txt"),
              ElementsAre("checkpoint-100", "checkpoint-200", "checkpoint-last"));
  fs::remove(at("checkpoint-last"));
  // Where all are called so, the word says nothing of one.
  for (const auto* name : {"run/a/last.ckpt", "run/b/last.ckpt"}) put(name);
  EXPECT_EQ(members({at("run/*/last.ckpt")}, "test").members.size(), 2U);
  for (const auto* name : {"ends/model_0004999.pth", "ends/model_0009999.pth"}) put(name);
  put("ends/model_final.pth");
  EXPECT_THAT(names_in("ends"), ElementsAre("model_0004999.pth", "model_0009999.pth"));
}

TEST_F(SeriesOfFiles, UnreadableCheckpointsMayHaveAWordForAStep) {
  for (const auto* name : {"checkpoint-10", "checkpoint-20"}) put_folder(name);
  for (const auto* name : {"checkpoint-last", "checkpoint_best", "latest"}) {
    put(std::string(name) + "/model-00001-of-00002.safetensors");
    EXPECT_THAT(members({folder.path()}, "test").remarks,
                ElementsAre(HasSubstr(formatted("{}: model-00001-of-00002", at(name)))));
    fs::remove_all(at(name));
  }
  put_file(at("latest"), "checkpoint-20\n");  // DeepSpeed's
  fs::create_directory(at("last-logs"));
  EXPECT_THAT(members({folder.path()}, "test").remarks, IsEmpty());
  for (const auto* name : {"files/step1.safetensors", "files/step2.safetensors", "files/last.pt"})
    put(name);
  EXPECT_THAT(members({at("files")}, "test").remarks,
              ElementsAre(EndsWith("in another format than the other checkpoints: last.pt")));
}

TEST_F(SeriesOfFiles, NamesWithoutAStepBesideOthersMakeNoOrder) {
  const auto expect_no_order = [&](const std::string& source, const std::string& why) {
    const auto series = members({at(source)}, "test");
    EXPECT_TRUE(series.counted) << source;
    EXPECT_EQ(series.unordered, why);
    EXPECT_THAT(series.remarks, ElementsAre("the checkpoints have no order: " + why));
  };
  for (const auto* name : {"swa/step1.pt", "swa/step2.pt", "swa/mean.pt"}) put(name);
  expect_no_order("swa", "the name of 'mean.pt' has no step, but that of 'step2.pt' has one");
  for (const auto* name : {"two/checkpoint-100", "two/checkpoint-last"}) put_folder(name);
  expect_no_order(
      "two/*", "the name of 'checkpoint-last' has no step, but that of 'checkpoint-100' has one");
  // Given one by one, they have the order in which they were given.
  const std::vector<fs::path> named{at("two/checkpoint-100"), at("two/checkpoint-last")};
  EXPECT_EQ(members(named, "test").unordered, "");
  for (const auto* name : {"plain/a.pt", "plain/b.pt", "versions/m.pt", "versions/m_v2.pt"})
    put(name);
  EXPECT_EQ(members({at("plain")}, "test").unordered, "");
  EXPECT_EQ(members({at("versions")}, "test").unordered, "");
}

TEST_F(SeriesOfFiles, TrainingStatesAreNoWeights) {
  for (const auto* name :
       {"pytorch_model_fsdp_0/.metadata", "optimizer_0/.metadata", "scheduler.bin"}) {
    fs::create_directories(at("checkpoint-1" / fs::path(name)).parent_path());
    put_file(at("checkpoint-1" / fs::path(name)), "");
  }
  EXPECT_THAT(names_in("checkpoint-1"), ElementsAre("pytorch_model_fsdp_0"));
  fs::remove_all(at("checkpoint-1/pytorch_model_fsdp_0"));
  EXPECT_THAT(refusal({at("checkpoint-1")}), HasSubstr("has none"));
}

TEST_F(SeriesOfFiles, SaysWhichFilesCannotBeRead) {
  for (const auto* name : {"step1.safetensors", "step2.safetensors"}) put(name);
  fs::create_symlink("nowhere", at("step3.safetensors"));
  put_file(at("._step1.safetensors"), "of macOS");
  EXPECT_THAT(members({folder.path()}, "test").remarks,
              ElementsAre(HasSubstr("step3.safetensors: the target of the link does not exist")));
  fs::remove(at("step3.safetensors"));
  ASSERT_EQ(::mkfifo(at("step3.safetensors").c_str(), 0600), 0);
  const auto remarks = members({folder.path()}, "test").remarks;
  ASSERT_EQ(remarks.size(), 1U);
  EXPECT_THAT(remarks[0], EndsWith("the path is a pipe"));
}

TEST_F(SeriesOfFiles, PassesOverFoldersWithinOthersThatItCannotOpen) {
  for (const auto* name : {"files/step1.safetensors", "files/step2.safetensors"}) put(name);
  for (const auto* name : {"folders/step1", "folders/step2"}) put_folder(name);
  for (const auto* run : {"files", "folders"}) {
    const std::vector closed{at(run) / "logs/private", at(run) / "step3/private"};
    for (const auto& path : closed) {
      fs::create_directories(path);
      ASSERT_EQ(::chmod(path.c_str(), 0), 0);
    }
    const auto series = [&] {
      const OwnerAlone owner;
      return members({at(run)}, "test");
    }();
    for (const auto& path : closed) ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
    EXPECT_EQ(series.members.size(), 2U) << run;
    EXPECT_THAT(series.remarks, ElementsAre(HasSubstr("step3: the folder has no weight file")));
  }
}

TEST_F(SeriesOfFiles, PartsOfOneCheckpointAreNoSeries) {
  for (const auto& name :
       words("consolidated.01.pth mp_rank_01_model_states.pt "
             "checkpoint_last-model_part-0.pt model-1-of-2.pt model_1_of_2.pt "
             "layer_03-model_00-model_states.pt pp_stage_0.pt tp_1.safetensors "
             "weights.shard0.bin model_1of2.pt layer_00-model_states.pt "
             "model_rank0of2.pt model_pp1of2.pt model.00.of.02.pt rank_3.ckpt")) {
    EXPECT_TRUE(part_in_name(at(name))) << name;
    fs::create_directory(at("run"));
    put_file(at("run") / name, "");
    EXPECT_THAT(refusal({at("run")}), HasSubstr(name));
    EXPECT_THAT(refusal({at("run") / name}), HasSubstr("is only a part of a checkpoint")) << name;
    fs::remove_all(at("run"));
  }
  for (const auto& name : words("stage2-ingredient1-step11931.pt lora_rank_8.safetensors "
                                "step_10_of_100.pt epoch-3-of-10.pt model-1-of-1.pt "
                                "consolidated.00.pth mp_rank_00_model_states.pt "
                                "model_world_size_1_rank_0.pt model-00001-of-00001.safetensors "
                                "fold-1-of-5.pt checkpoint-1-of-10.pt iter_1_of_100.pt "
                                "iteration_1_of_100.pt ckpt3of9.pt seed_1_of_3.pt "
                                "adapter_rank_8.safetensors w_svd_rank_16.safetensors franked_3.pt "
                                "stage_1.pt"))
    EXPECT_FALSE(part_in_name(at(name))) << name;
  put_file(at("consolidated.01.pth"), "");
  EXPECT_TRUE(part_in_name(at("consolidated.00.pth")));
  EXPECT_TRUE(part_in_name(at("checkpoint-00001-of-00002.pt")));  // as shards are numbered
  put("model-00001-of-00002.safetensors");
  EXPECT_THAT(refusal({at("model-00001-of-00002.safetensors")}),
              HasSubstr("model.safetensors.index.json and all shards"));
}

TEST_F(SeriesOfFiles, MembersThatDifferByARankAreParts) {
  const std::vector<std::pair<std::string, std::string>> parts{
      {"ep0-ba100-rank0.pt", "ep0-ba100-rank1.pt"},
      {"rank0.pt", "rank1.pt"},
      {"model-rank-0.pt", "model-rank-1.pt"},
      {"layer_00-model_states.pt", "layer_02-model_states.pt"},
      {"mp_rank_00/model.safetensors", "mp_rank_01/model.safetensors"},
      {"model_tp0_pp0.pt", "model_tp1_pp0.pt"},
      {"model_tp0_pp0_ep0.pt", "model_tp0_pp0_ep1.pt"},
      {"model_1of2.pt", "model_2of2.pt"},
      {"1of2/model.safetensors", "2of2/model.safetensors"},
      {"model_part_0.pt", "model_part_1.pt"},
      {"part-00000.bin", "part-00001.bin"},
      {"model_expert_0.safetensors", "model_expert_1.safetensors"},
      {"weights_gpu0.pt", "weights_gpu1.pt"},
      {"model_process_0.pt", "model_process_1.pt"},
      {"pytorch_model_fsdp_0.bin", "pytorch_model_fsdp_1.bin"},
      {"model rank 0.pt", "model rank 1.pt"},
      {"slice_0.pt", "slice_1.pt"},
      {"partition_0.pt", "partition_1.pt"},
      {"partition0.pt", "partition1.pt"},
      {"sharded_0.pt", "sharded_1.pt"},
      {"pipeline_stage_0.pt", "pipeline_stage_1.pt"},
      {"model_pp_stage0.pt", "model_pp_stage1.pt"},
      {"x (1 of 2).pt", "x (2 of 2).pt"},
      {"model_1 of 2.pt", "model_2 of 2.pt"},
      {"x_tp0_cp0.pt", "x_tp0_cp1.pt"},
      {"model_tensor_parallel_0.pt", "model_tensor_parallel_1.pt"},
      {"mp_rank_00_000/model.safetensors", "mp_rank_01_001/model.safetensors"}};
  for (const auto& [one, other] : parts) {
    for (const auto& name : {one, other}) put("run/" + name);
    const auto says_parts = AnyOf(HasSubstr("are parts of one checkpoint"),
                                  HasSubstr("is only a part of a checkpoint"));
    EXPECT_THAT(refusal({at("run")}), says_parts) << one;
    EXPECT_THAT(refusal({at("run/*")}), says_parts) << one;
    EXPECT_THAT(refusal({at("run") / one, at("run") / other}), says_parts);
    fs::remove_all(at("run"));
  }
}

TEST_F(SeriesOfFiles, MembersInFoldersOfRanksAreParts) {
  for (const auto& [one, other] : std::vector<std::pair<std::string, std::string>>{
           {"mp_rank_00/model_weights.ckpt", "mp_rank_01/model_weights.ckpt"},
           {"rank_0/net-1_10.ckpt", "rank_1/net-1_10.ckpt"},
           {"tp_rank_00_pp_rank_000/w.ckpt", "tp_rank_00_pp_rank_001/w.ckpt"},
           {"rank0/step1/w.pt", "rank1/step1/w.pt"}}) {
    for (const auto& name : {one, other}) put("run/" + name);
    const auto rest = one.substr(one.find('/'));
    EXPECT_THAT(refusal({at("run/*" + rest)}), HasSubstr("are parts of one checkpoint")) << one;
    EXPECT_THAT(refusal({at("run") / one, at("run") / other}),
                HasSubstr("are parts of one checkpoint"));
    EXPECT_EQ(members({at("run") / one}, "test").members.size(), 1U);
    fs::remove_all(at("run"));
  }
}

TEST_F(SeriesOfFiles, MembersThatDifferByAnotherNumberAreWhole) {
  const std::vector<std::pair<std::string, std::string>> whole{
      {"ep0-ba100-rank0.pt", "ep1-ba200-rank0.pt"},
      {"ep1.pt", "ep2.pt"},
      {"lora_rank_8.safetensors", "lora_rank_16.safetensors"},
      {"step_1of2.pt", "step_2of2.pt"},
      {"step 1 of 2.pt", "step 2 of 2.pt"},
      {"cp_1.pt", "cp_2.pt"},
      {"pipeline_stage_1_step_100.pt", "pipeline_stage_1_step_200.pt"},
      {"rank0/step1.pt", "rank1/step2.pt"},
      {"fold-1-of-5/w.pt", "fold-2-of-5/w.pt"},
      {"adapter_rank_8/w.pt", "adapter_rank_16/w.pt"},
      {"seed0/step1.pt", "seed1/step1.pt"}};
  for (const auto& [one, other] : whole) {
    for (const auto& name : {one, other}) put("run/" + name);
    EXPECT_EQ(members({at("run") / one, at("run") / other}, "test").members.size(), 2U) << one;
    fs::remove_all(at("run"));
  }
}

TEST_F(SeriesOfFiles, FilesOfWorkersAreParts) {
  for (const std::string word : {"worker_", "device_", "model_node", "cuda", "proc", "w-dp-"}) {
    for (const char number : {'0', '1'}) put(formatted("run/{}{}.pt", word, number));
    EXPECT_THAT(refusal({at("run")}), HasSubstr("are parts of one checkpoint")) << word;
    const auto text = refusal({at("run/*")});
    EXPECT_THAT(text, HasSubstr("are parts of one checkpoint")) << word;
    // Each may be a whole one, as its user knows.
    EXPECT_THAT(text,
                EndsWith("if each file is a whole checkpoint, list the files in a text file "
                         "(.txt, one per line)"));
    put_file(at("all.txt"), formatted("run/{}0.pt\nrun/{}1.pt", word, word));
    const auto listed = members({at("all.txt")}, "test");
    EXPECT_EQ(listed.members.size(), 2U) << word;
    EXPECT_THAT(listed.remarks,
                ElementsAre(HasSubstr("each of them counts as a whole checkpoint")));
    fs::remove_all(at("run"));
  }
  // Words of ranks and parts count in a list, too.
  for (const char number : {'0', '1'}) put(formatted("run/w_mp{}.pt", number));
  put_file(at("all.txt"), "run/w_mp0.pt\nrun/w_mp1.pt");
  EXPECT_THAT(refusal({at("all.txt")}),
              EndsWith("is a whole checkpoint, rename the files or folders"));
  fs::remove_all(at("run"));
  // A share of inputs that dropout drops.
  for (const auto* name : {"run/model_dp0.1.pt", "run/model_dp0.2.pt"}) put(name);
  EXPECT_EQ(members({at("run")}, "test").members.size(), 2U);
}

// What each GPU or process saved is whole, whatever its folder is called.
TEST_F(SeriesOfFiles, FoldersOfProcessesHoldWholeCheckpoints) {
  const std::vector<std::pair<std::string, std::string>> whole{
      {"gpu0/step1/model.safetensors", "gpu1/step1/model.safetensors"},
      {"GPU-0/step1.pt", "GPU-1/step1.pt"},
      {"process_0/step1.pt", "process_1/step1.pt"},
      {"worker_0/step1.pt", "worker_1/step1.pt"},
      {"node0/step1/model.safetensors", "node1/step1/model.safetensors"},
      {"rank0/step1/model.safetensors", "rank1/step1/model.safetensors"}};
  for (const auto& [one, other] : whole) {
    for (const auto& name : {one, other}) put("run/" + name);
    const auto pattern = at("run/*" + one.substr(one.find('/')));
    const std::vector<std::vector<fs::path>> sources{{pattern},
                                                     {at("run") / one, at("run") / other}};
    for (const auto& source : sources) {
      auto series = members(source, "test");
      sort_by_step(series);
      EXPECT_EQ(series.members.size(), 2U) << one;
      EXPECT_THAT(series.unordered, HasSubstr("both belong to step 1")) << one;
      EXPECT_THAT(series.remarks,
                  ElementsAre(HasSubstr("differ only in the number of a GPU, process or rank")));
    }
    fs::remove_all(at("run"));
  }
  // A file's own name, and a folder of slices.
  for (const auto& [one, other] : {std::pair("step1_gpu0.pt", "step1_gpu1.pt"),
                                   std::pair("gpu0/tp_0/w.pt", "gpu0/tp_1/w.pt"),
                                   std::pair("rank_0/net.ckpt", "rank_1/net.ckpt")}) {
    for (const auto* name : {one, other}) put(name);
    EXPECT_THAT(refusal({at(one), at(other)}), HasSubstr("are parts of one checkpoint")) << one;
  }
  // Checkpoints of several steps are one series in each folder.
  EXPECT_THAT(members({at("gpu0/tp_0/w.pt"), at("step1_gpu0.pt")}, "test").remarks, IsEmpty());
}

TEST_F(SeriesOfFiles, FilesOfRanksAreOneCheckpoint) {
  for (const std::string name : {"model_world_size_2_rank_0.pt",
                                 "zero_pp_rank_0_mp_rank_00_model_states.pt",
                                 "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"}) {
    const auto own = at("global_step_5");
    fs::create_directories(own / "actor");
    put_file(own / "actor" / name, "");
    EXPECT_EQ(look(own / "actor").kind, ArtifactKind::ranks) << name;
    EXPECT_EQ(look(own / "actor").weights, own / "actor" / name);
    EXPECT_EQ(look(own).weights, own / "actor" / name);
    EXPECT_THAT(refusal({own / "actor" / name}), HasSubstr("give the folder"));
    // Either of two could be meant.
    fs::create_directories(own / "critic");
    put_file(own / "critic" / name, "");
    EXPECT_EQ(look(own).kind, ArtifactKind::series);
    fs::remove_all(own);
  }
}

TEST_F(SeriesOfFiles, LatestNamesTheFolderOfRanks) {
  const std::string name = "zero_pp_rank_0_mp_rank_00_optim_states.pt";
  put_folder("checkpoint-5");
  const auto weights = at("checkpoint-5/global_step5") / name;
  fs::create_directories(weights.parent_path());
  put_file(weights, "");
  put_file(at("checkpoint-5/latest"), "global_step5\n");
  // The Trainer's own weights come first, those of its optimizer are no second meaning.
  EXPECT_EQ(look(at("checkpoint-5")).kind, ArtifactKind::folder);
  EXPECT_EQ(members({at("checkpoint-5")}, "test").members.size(), 1U);
  fs::remove(look(at("checkpoint-5")).weights);
  EXPECT_EQ(look(at("checkpoint-5")).weights, weights);
  fs::create_directories(at("checkpoint-5/global_step4"));
  put_file(at("checkpoint-5/global_step4") / name, "");
  EXPECT_EQ(look(at("checkpoint-5")).kind, ArtifactKind::series);
  put_file(at("checkpoint-5/latest"), "..");
  EXPECT_EQ(look(at("checkpoint-5")).kind, ArtifactKind::series);
}

TEST_F(SeriesOfFiles, ListsTakeBlanksAroundAPathWhereNoFileHasThem) {
  for (const auto* name : {"step1.safetensors", "step2.safetensors", " step3.safetensors"})
    put(name);
  put_file(at("list.txt"),
           " step1.safetensors\n\t step2.safetensors \t\r\n step3.safetensors\n  # no more\n \n");
  EXPECT_THAT(names_in("list.txt"),
              ElementsAre("step1.safetensors", "step2.safetensors", " step3.safetensors"));
}

TEST_F(SeriesOfFiles, ListsRefuseWhatIsNotOneCheckpoint) {
  for (const auto* name : {"many", "run"}) {
    fs::create_directory(at(name));
    put_file(at(name) / "step1.safetensors", "");
    put_file(at(name) / "step2.safetensors", "");
  }
  put_file(at("run/config.toml"), "");
  put_file(at("other.txt"), "many/step1.safetensors\n");
  const std::vector<std::pair<std::string, std::string>> cases{
      {"many/*.safetensors", "a pattern"},
      {"many", "a folder of several checkpoints"},
      {"run/", "a run"},
      {"other.txt", "a list"}};
  for (const auto& [line, what] : cases) {
    put_file(at("list.txt"), line + '\n');
    EXPECT_THAT(
        refusal({at("list.txt")}),
        testing::AllOf(HasSubstr("list.txt', received " + what + ", '"),
                       HasSubstr("list the single files, or give this path instead of the list")));
  }
}

TEST_F(SeriesOfFiles, KindsOfPaths) {
  put_folder("step1");
  put_folder("step2");
  put("w.safetensors");
  put_file(at("w.safetensors.index.json"), "{}");
  put_file(at("list.txt"), "step1\n");
  put_file(at("m.npy"), "");
  put_file(at("notes"), "x");
  fs::create_directory(at("dcp"));
  put_file(at("dcp/.metadata"), "");
  fs::create_directory(at("run"));
  put_file(at("run/config.toml"), "");
  const std::vector<std::pair<std::string, ArtifactKind>> kinds{
      {"none", ArtifactKind::missing},
      {"step1", ArtifactKind::folder},
      {"step*", ArtifactKind::pattern},
      {"w.safetensors", ArtifactKind::weights},
      {"w.safetensors.index.json", ArtifactKind::index},
      {"list.txt", ArtifactKind::list},
      {"m.npy", ArtifactKind::matrix},
      {"notes", ArtifactKind::unknown},
      {"dcp", ArtifactKind::folder},
      {"dcp/.metadata", ArtifactKind::distributed},
      {"run", ArtifactKind::run},
      {"", ArtifactKind::series}};
  for (const auto& [name, kind] : kinds) EXPECT_EQ(look(at(name)).kind, kind) << name;
  EXPECT_EQ(look(at("dcp")).weights, at("dcp/.metadata"));
  EXPECT_TRUE(look(at("run")).is_one());
  EXPECT_FALSE(look(at("m.npy")).is_one());
}

TEST_F(SeriesOfFiles, AStartThatWasKilledAtOnceLeavesNothing) {
  EXPECT_TRUE(holds_nothing(at("run")));
  fs::create_directory(at("run"));
  for (const auto* name : {".lock", "config.toml.tmp"}) put_file(at("run") / name, "seed");
  EXPECT_TRUE(holds_nothing(at("run")));
  put_file(at("run/thesis.txt"), "precious");
  EXPECT_FALSE(holds_nothing(at("run")));
}

}  // namespace
}  // namespace dimred::checkpoints
