#include "checkpoints/series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "checkpoints/part_names.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/steps.h"
#include "support/formatted.h"
#include "tests/tools/temporary_folder.h"

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
              HasSubstr("letters behind their steps differ"));
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
  EXPECT_EQ(series.unordered, "their order by step is not their order by epoch");
  EXPECT_FALSE(steps_of({"/epoch_1/iter_900", "/epoch_2/iter_100"}).conflict.empty());
  EXPECT_FALSE(steps_of({"/checkpoint_1_900", "/checkpoint_2_100"}).conflict.empty());
  EXPECT_TRUE(steps_of({"/checkpoint_1_900", "/checkpoint_2_1100"}).conflict.empty());
}

TEST_F(SeriesOfFiles, StepsStandBehindTheFirstWordThatAllNamesHave) {
  EXPECT_EQ(steps({"epoch=1-step=200", "epoch=2-step=100"}), (Values{200, 100}));
  EXPECT_EQ(steps({"epochs_3", "epochs_12"}), (Values{3, 12}));
  EXPECT_EQ(steps({"iteration_20", "iterations-3"}), (Values{20, 3}));
  EXPECT_EQ(steps({"ckpt_7", "checkpoint_5"}), (Values{1, 2}));
  // fairseq's checkpoint_EPOCH_UPDATES; a name of another form makes no order.
  EXPECT_EQ(steps({"checkpoint_1_5000.pt", "checkpoint_2_10000.pt"}), (Values{5000, 10000}));
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
}

TEST_F(SeriesOfFiles, SeveralOfOneStepHaveNoOrder) {
  for (const auto* seed : {"seed1", "seed2"}) put_folder(std::string(seed) + "/step100");
  auto series = members({at("seed*/step100")}, "test");
  sort_by_step(series);
  EXPECT_EQ(series.members.size(), 2U);
  EXPECT_THAT(series.unordered, HasSubstr("of step 100"));
}

TEST_F(SeriesOfFiles, LeavesOutWhatIsUnfinished) {
  for (const auto* name : {"tmp-checkpoint-30",
                           "checkpoint-30.incomplete",
                           "checkpoint-30_tmp",
                           ".checkpoint-30",
                           "checkpoint-30.partial",
                           "checkpoint-30~",
                           "checkpoint-30.tmp-17",
                           "~checkpoint-30",
                           "checkpoint-30-tmp",
                           "checkpoint-30_temp",
                           "checkpoint-30.temp",
                           "checkpoint-30.saving",
                           "checkpoint-30.inprogress",
                           "checkpoint-30.crdownload",
                           "checkpoint-30.orbax-checkpoint-tmp-1700",
                           "checkpoint-30.part2"}) {
    EXPECT_TRUE(is_unfinished_name(name)) << name;
    for (const auto* each : {"checkpoint-10", "checkpoint-20", name}) put_folder(each);
    const auto series = members({folder.path()}, "test");
    EXPECT_EQ(series.members.size(), 2U) << name;
    EXPECT_THAT(series.remarks, ElementsAre(HasSubstr(std::string(name) + ": it is unfinished")));
    fs::remove_all(at(name));
  }
  for (const auto* name : {"tmpfs-1", "a.tmpl", "step1.parts", "template", "checkpoint-30.part2x"})
    EXPECT_FALSE(is_unfinished_name(name)) << name;
  EXPECT_TRUE(is_unfinished_name("step1_tmp.safetensors"));
  // A name that is given is refused for .tmp alone.
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
      HasSubstr("step3.safetensors: it is unfinished, as step3.safetensors.aria2");
  const auto series = members({folder.path()}, "test");
  EXPECT_EQ(series.members.size(), 2U);
  EXPECT_THAT(series.remarks,
              ElementsAre(of_aria2, HasSubstr("step4.safetensors.crdownload: it is unfinished")));
  const auto matched = members({at("*")}, "test");
  EXPECT_EQ(matched.members.size(), 2U);
  EXPECT_THAT(matched.remarks, Contains(of_aria2));
  for (const auto* name : {"run/checkpoint-10", "run/checkpoint-20", "run/checkpoint-30"})
    put_folder(name);
  put_file(at("run/checkpoint-30/model.safetensors.aria2"), "");
  EXPECT_THAT(names_in("run"), ElementsAre("checkpoint-10", "checkpoint-20"));
  put_folder("run/checkpoint-40_tmp");
  EXPECT_THAT(members({at("run/checkpoint-[124]*/model.safetensors")}, "test").remarks,
              ElementsAre(HasSubstr("checkpoint-40_tmp: it is unfinished")));
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
    EXPECT_THAT(series.remarks, ElementsAre(HasSubstr(formatted("than the others: {}", name))));
    fs::remove(at(name));
  }
  for (const auto* name : {"run/checkpoint-10", "run/checkpoint-20"}) put_folder(name);
  put_file(at("run/checkpoint-30"), "");
  put_file(at("run/checkpoint-40.tar.gz"), "");
  EXPECT_THAT(members({at("run")}, "test").remarks,
              ElementsAre(HasSubstr("than the others: checkpoint-30, checkpoint-40.tar.gz")));
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
  expect_remark("no weights under a name that is known");
  fs::create_symlink("../nowhere", at("checkpoint-30/model.safetensors"));
  expect_remark("a link that leads nowhere");
  put("checkpoint-30/model-00001-of-00002.safetensors");
  expect_remark("is a part of a checkpoint");
  put("checkpoint-30/global_step30/mp_rank_01_model_states.pt");
  expect_remark("is a part of a checkpoint");
  put("checkpoint-30/__0_0.distcp");
  expect_remark("has no .metadata");
  // Folders of another name are no members.
  fs::remove_all(at("checkpoint-30"));
  fs::create_directory(at("logs"));
  EXPECT_THAT(members({folder.path()}, "test").remarks, IsEmpty());
}

TEST_F(SeriesOfFiles, SaysWhichFilesCannotBeRead) {
  for (const auto* name : {"step1.safetensors", "step2.safetensors"}) put(name);
  fs::create_symlink("nowhere", at("step3.safetensors"));
  put_file(at("._step1.safetensors"), "of macOS");
  EXPECT_THAT(members({folder.path()}, "test").remarks,
              ElementsAre(HasSubstr("step3.safetensors: the link leads nowhere")));
  fs::remove(at("step3.safetensors"));
  ASSERT_EQ(::mkfifo(at("step3.safetensors").c_str(), 0600), 0);
  const auto remarks = members({folder.path()}, "test").remarks;
  ASSERT_EQ(remarks.size(), 1U);
  EXPECT_THAT(remarks[0], EndsWith("it is a pipe"));
}

TEST_F(SeriesOfFiles, PartsOfOneCheckpointAreNoSeries) {
  for (const auto* name : {"consolidated.01.pth",
                           "mp_rank_01_model_states.pt",
                           "checkpoint_last-model_part-0.pt",
                           "model-1-of-2.pt",
                           "model_1_of_2.pt",
                           "layer_03-model_00-model_states.pt",
                           "pp_stage_0.pt",
                           "tp_1.safetensors",
                           "weights.shard0.bin",
                           "model_1of2.pt",
                           "layer_00-model_states.pt",
                           "rank_3.ckpt"}) {
    EXPECT_TRUE(part_in_name(at(name))) << name;
    fs::create_directory(at("run"));
    put_file(at("run") / name, "");
    EXPECT_THAT(refusal({at("run")}), HasSubstr(name));
    EXPECT_THAT(refusal({at("run") / name}), HasSubstr("is a part of one checkpoint")) << name;
    fs::remove_all(at("run"));
  }
  for (const auto* name : {"stage2-ingredient1-step11931.pt",
                           "lora_rank_8.safetensors",
                           "step_10_of_100.pt",
                           "epoch-3-of-10.pt",
                           "model-1-of-1.pt",
                           "consolidated.00.pth",
                           "mp_rank_00_model_states.pt",
                           "model_world_size_1_rank_0.pt",
                           "franked_3.pt",
                           "stage_1.pt"})
    EXPECT_FALSE(part_in_name(at(name))) << name;
  put_file(at("consolidated.01.pth"), "");
  EXPECT_TRUE(part_in_name(at("consolidated.00.pth")));
  put("model-00001-of-00002.safetensors");
  EXPECT_THAT(refusal({at("model-00001-of-00002.safetensors")}),
              HasSubstr("must hold model.safetensors.index.json"));
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
      {"pytorch_model_fsdp_0.bin", "pytorch_model_fsdp_1.bin"}};
  for (const auto& [one, other] : parts) {
    for (const auto& name : {one, other}) put("run/" + name);
    EXPECT_THAT(refusal({at("run")}), HasSubstr("of one checkpoint, as")) << one;
    EXPECT_THAT(refusal({at("run/*")}), HasSubstr("of one checkpoint, as")) << one;
    EXPECT_THAT(refusal({at("run") / one, at("run") / other}), HasSubstr("of one checkpoint, as"));
    fs::remove_all(at("run"));
  }
  const std::vector<std::pair<std::string, std::string>> whole{
      {"ep0-ba100-rank0.pt", "ep1-ba200-rank0.pt"},
      {"ep1.pt", "ep2.pt"},
      {"lora_rank_8.safetensors", "lora_rank_16.safetensors"},
      {"step_1of2.pt", "step_2of2.pt"},
      {"rank0/step1.pt", "rank1/step2.pt"}};
  for (const auto& [one, other] : whole) {
    for (const auto& name : {one, other}) put("run/" + name);
    EXPECT_EQ(members({at("run") / one, at("run") / other}, "test").members.size(), 2U) << one;
    fs::remove_all(at("run"));
  }
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
    EXPECT_THAT(refusal({own / "actor" / name}), HasSubstr("give its folder"));
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

TEST_F(SeriesOfFiles, ListsKeepTheirOrderAndMayHaveComments) {
  for (const auto* name : {"step1.safetensors", "step2.safetensors"}) put(name);
  put_file(at("list.txt"), "# newest first\nstep2.safetensors\n\nstep1.safetensors\r\n");
  EXPECT_THAT(names_in("list.txt"), ElementsAre("step2.safetensors", "step1.safetensors"));
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
  const std::vector<std::pair<std::string, std::string>> cases{{"many/*.safetensors", "a pattern"},
                                                               {"many", "a folder of several"},
                                                               {"run/", "a run"},
                                                               {"other.txt", "a list"}};
  for (const auto& [line, what] : cases) {
    put_file(at("list.txt"), line + '\n');
    EXPECT_THAT(
        refusal({at("list.txt")}),
        testing::AllOf(HasSubstr("list.txt', received " + what + ", '"),
                       HasSubstr("list the files in it, or give that path instead of the list")));
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

}  // namespace
}  // namespace dimred::checkpoints
