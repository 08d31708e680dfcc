#include <algorithm>
#include <map>

#include "tests/imports/imports_fixture.h"

namespace dimred::imports {
namespace {

// The seed documents' example, its misspelt first key included.
constexpr auto example =
    "enable_paisora=True\n"
    "batch_size=128\n"
    "use_fp16=True\n"
    "dataset_name=flowers\n"
    "dataset_dir=oss://pai-online-beijing.oss-cn-beijing-internal.aliyuncs.com/fastnn-data/flowers/"
    "\n"
    "model_name=inception_resnet_v2\n"
    "optimizer=sgd\n"
    "num_classes=5\n"
    "job_name=worker\n";

TEST_F(Imports, EachLineOfTheSeedsExampleHasAnAnswer) {
  const auto import = fastnn(example);
  const auto given = std::ranges::count_if(import.lines, &ImportedKey::given);
  EXPECT_EQ(given, 9);
  for (const auto& one : import.lines) {
    EXPECT_TRUE(!one.given || !one.text.empty() || !one.settings.empty()) << one.key;
  }
  EXPECT_NE(line(import, "enable_paisora").text.find("enable_paisoar"), std::string::npos);
  const auto set = settings(import);
  EXPECT_EQ(set.at("data"),
            "oss://pai-online-beijing.oss-cn-beijing-internal.aliyuncs.com/fastnn-data/flowers/");
  EXPECT_EQ(refusal(import), "");
  EXPECT_EQ(set.at("batch_size"), "128");
  EXPECT_EQ(set.at("precision"), "auto");
  EXPECT_EQ(set.at("model"), "inception_resnet_v2");
  EXPECT_EQ(set.at("optimizer"), "sgd");
  EXPECT_FALSE(set.contains("dataset"));
}

TEST_F(Imports, WhatIsRefusedIsSettledByAFlag) {
  const auto import = fastnn("dataset_name=flowers\ndataset_dir=odps://project/tables/a\n");
  EXPECT_NE(refusal(import).find("hyper.txt:2:1: dataset_dir=odps://"), std::string::npos);
  EXPECT_NE(refusal(import).find("instead: --data"), std::string::npos);
  EXPECT_NO_THROW(require_overridden(import, [](std::string_view name) { return name == "data"; }));
}

TEST_F(Imports, KeysLeftOutHaveFastnnsDefaultsNotOurs) {
  const auto set = settings(fastnn(""));
  const std::map<std::string, std::string> expected = {{"batch_size", "32"},
                                                       {"bucket_mb", "8"},
                                                       {"dataset", "mock"},
                                                       {"epochs", "100"},
                                                       {"learning_rate", "0.01"},
                                                       {"log_loss_every_n_iters", "10"},
                                                       {"model", "inception_resnet_v2"},
                                                       {"num_classes", "100"},
                                                       {"num_samples", "1000000"},
                                                       {"opt_epsilon", "1"},
                                                       {"optimizer", "rmsprop"},
                                                       {"precision", "auto"},
                                                       {"prefetch", "32"},
                                                       {"preprocessing_name", "inception"},
                                                       {"rmsprop_decay", "0.9"},
                                                       {"rmsprop_momentum", "0.9"},
                                                       {"schedule", "constant"},
                                                       {"stop_at_step", "100"},
                                                       {"weight_decay", "0.00004"}};
  EXPECT_EQ(set, expected);
}

TEST_F(Imports, ThePipelinesOptionsAreOurs) {
  const auto set = settings(
      fastnn("dataset_name=flowers\ndataset_dir=/data\nnum_classes=5\nlabels_offset=1\n"
             "num_preprocessing_threads=4\nshuffle_buffer_size=2048\nnum_parallel_batches=2\n"
             "datasets_use_caching=True\nmodel_name=resnet_v1_50\n"));
  const std::map<std::string, std::string> expected = {{"num_classes", "5"},
                                                       {"labels_offset", "1"},
                                                       {"num_preprocessing_threads", "4"},
                                                       {"shuffle_buffer_size", "2048"},
                                                       {"num_parallel_batches", "2"},
                                                       {"datasets_use_caching", "true"},
                                                       {"preprocessing_name", "vgg"}};
  for (const auto& [name, value] : expected) EXPECT_EQ(set.at(name), value) << name;
  const auto left_out = settings(fastnn("dataset_name=flowers\ndataset_dir=/data\n"));
  for (const auto& [name, value] : expected)
    EXPECT_EQ(left_out.contains(name), name == "preprocessing_name") << name;
}

TEST_F(Imports, FilesOfTheFolderAreChosen) {
  const std::string flowers = "dataset_name=flowers\ndataset_dir=/data\n";
  const auto one = fastnn(flowers + "train_files=0.tfrecord\neval_files=1.tfrecord\n");
  EXPECT_EQ(settings(one).at("data"), "/data/0.tfrecord");
  EXPECT_EQ(settings(one).at("test_data"), "/data/1.tfrecord");
  EXPECT_EQ(line(one, "dataset_dir").answer, Answer::no_effect);
  const auto buffered = fastnn(flowers + "train_files=0.tfrecord\nshuffle_buffer_size=16\n");
  EXPECT_FALSE(settings(buffered).contains("shuffle_buffer_size"));
  const auto two = settings(fastnn(flowers + "train_files=0.tfrecord,1.tfrecord\n"));
  EXPECT_EQ(two.at("data"), "/data/{0.tfrecord,1.tfrecord}");
  EXPECT_NE(
      refusal(fastnn("dataset_name=flowers\ntrain_files=0.tfrecord\n")).find("needs dataset_dir"),
      std::string::npos);
  const std::string store = "dataset_name=flowers\ndataset_dir=s3://bucket/flowers\n";
  EXPECT_EQ(settings(fastnn(store + "train_files=a\n")).at("data"), "s3://bucket/flowers/a");
  EXPECT_NE(refusal(fastnn(store + "train_files=a,b\n"))
                .find("give several remote files as one pattern; instead: --data"),
            std::string::npos);
}

TEST_F(Imports, LenetHasTheSizeOfItsImages) {
  const auto set = settings(fastnn("model_name=lenet\n"));
  EXPECT_EQ(set.at("model"), "lenet");
  EXPECT_EQ(set.at("image_size"), "28");
  EXPECT_EQ(set.at("preprocessing_name"), "lenet");
}

TEST_F(Imports, ANumberOfSamplesIsCheckedOrTheMockSets) {
  EXPECT_EQ(settings(fastnn("num_sample_per_epoch=64\n")).at("num_samples"), "64");
  const std::string flowers = "dataset_name=flowers\ndataset_dir=/data\n";
  EXPECT_EQ(settings(fastnn(flowers + "num_sample_per_epoch=3320\n")).at("num_samples"), "3320");
  EXPECT_FALSE(settings(fastnn(flowers)).contains("num_samples"));
}

TEST_F(Imports, ALossScaleIsOurs) {
  const auto set = settings(fastnn("use_fp16=True\nloss_scale=1024\n"));
  EXPECT_EQ(set.at("loss_scale"), "1024");
  EXPECT_EQ(set.at("precision"), "auto");
  EXPECT_FALSE(settings(fastnn("use_fp16=True\n")).contains("loss_scale"));  // FastNN's 1 is none
}

TEST_F(Imports, TheProfilerIsOursWhereItsHookIsThere) {
  const std::string lines = "profile_every_n_iters=20\nprofile_at_task=3\n";
  const auto set = settings(fastnn(lines));
  EXPECT_EQ(set.at("profile_every_n_iters"), "20");
  EXPECT_EQ(set.at("profile_at_task"), "3");
  const auto unhooked = fastnn(lines + "hooks=StopAtStepHook\n");
  EXPECT_FALSE(settings(unhooked).contains("profile_every_n_iters"));
  EXPECT_FALSE(settings(unhooked).contains("profile_at_task"));
  EXPECT_EQ(line(unhooked, "profile_every_n_iters").text, "hooks has no ProfilerHook");
  EXPECT_FALSE(settings(fastnn("profile_at_task=3\n")).contains("profile_at_task"));
}

TEST_F(Imports, ModelStatisticsHaveTwoNames) {
  for (const std::string name : {"print_model_statistics", "log_trainable_vars_statistics"}) {
    EXPECT_EQ(settings(fastnn(name + "=True\n")).at("print_model_statistics"), "true");
    EXPECT_FALSE(settings(fastnn(name + "=False\n")).contains("print_model_statistics"));
  }
  const auto both = fastnn("print_model_statistics=True\nlog_trainable_vars_statistics=True\n");
  EXPECT_EQ(entries_of(both).size(), entries_of(fastnn("print_model_statistics=True\n")).size());
}

TEST_F(Imports, NoneIsAsIfTheKeyWereNotThere) {
  const auto set = settings(fastnn("learning_rate=None\nmax_gradient_norm=None\n"));
  EXPECT_EQ(set.at("learning_rate"), "0.01");
  EXPECT_FALSE(set.contains("max_gradient_norm"));
}

TEST_F(Imports, ALearningRateThatDecaysKeepsItsForm) {
  const auto text = std::string("decay_scheme=luong5\nwarmup_steps=20\nstop_at_step=500\n");
  auto set = settings(fastnn(text));
  EXPECT_EQ(set.at("schedule"), "exponential");
  EXPECT_EQ(set.at("factor"), "0.94");
  EXPECT_EQ(set.at("decay_scheme"), "luong5");
  EXPECT_EQ(set.at("total_steps"), "500");
  EXPECT_EQ(set.at("warmup_steps"), "20");
  EXPECT_EQ(set.at("warmup_scheme"), "t2t");
  EXPECT_FALSE(set.contains("end_learning_rate"));
  set = settings(fastnn(text + "learning_rate_decay_type=polynomial\n"));
  EXPECT_EQ(set.at("schedule"), "fastnn-polynomial");
  EXPECT_EQ(set.at("end_learning_rate"), "0.0001");
  EXPECT_FALSE(set.contains("factor"));
  set = settings(fastnn(text + "learning_rate_decay_type=fixed\n"));
  EXPECT_EQ(set.at("schedule"), "constant");
  for (const auto* name : {"decay_scheme", "warmup_steps", "total_steps", "factor"})
    EXPECT_FALSE(set.contains(name)) << name;
}

TEST_F(Imports, HooksDecideWhatHappens) {
  const auto set = settings(fastnn("hooks=checkpointsaverhook\nstop_at_step=5\n"));
  EXPECT_FALSE(set.contains("stop_at_step"));
  EXPECT_FALSE(set.contains("log_loss_every_n_iters"));
  EXPECT_NE(refusal(fastnn("hooks=StopAtStepHook,MyHook\n")).find("not myhook"), std::string::npos);
}

TEST_F(Imports, WhatCannotBeIsRefusedByName) {
  const std::map<std::string, std::string> cases = {
      {"job_name=ps", "no parameter servers"},
      {"model_name=nasnet_large\nnum_classes=7",
       "needs the file nasnet_large.pt in this folder; `dimred model nasnet_large --num_classes 7` "
       "writes this file"},
      {"model_name=inception_v33", "did you mean inception_v3?"},
      {"optimizer=sgdd", "did you mean sgd?"},
      {"task_type=finetune", "instead: --initialize_from"},
      {"warmup_scheme=linear", "silently trains without a warm-up"},
      {"learning_rate_decay_type=cosine", "instead: --schedule"},
      {"decay_scheme=luong6", "luong5, luong10 and luong234"},
      {"preprocessing_name=ssd", "instead: --preprocessing_name"},
      {"preprocessing_name=None\nmodel_name=overfeat", "FastNN has no preprocessing for overfeat"},
      {"checkpointDir=odps://bucket/run",
       "cannot write to this store, only to hdfs, s3, gs and oss"},
      {"dataset_name=flower", "did you mean flowers?"}};
  for (const auto& [text, said] : cases)
    EXPECT_NE(refusal(fastnn(text)).find(said), std::string::npos) << refusal(fastnn(text));
}

TEST_F(Imports, StoresOfOursMayBeNamed) {
  const auto set = settings(
      fastnn("dataset_name=flowers\ndataset_dir=s3://b/data\ncheckpointDir=hdfs://h/run\n"));
  EXPECT_EQ(set.at("data"), "s3://b/data");
  EXPECT_EQ(set.at("output"), "hdfs://h/run");
}

TEST_F(Imports, FinetuneStartsFromAFileOrRunThatIsThere) {
  const auto weights = file("weights.pt", "PK");
  const auto folder = weights.parent_path();
  const auto from = [&](const std::string& keys) {
    return settings(fastnn("task_type=finetune\n" + keys))["initialize_from"];
  };
  const auto parent = "model_dir=" + folder.string() + "\n";
  EXPECT_EQ(from(parent + "ckpt_file_name=weights.pt\n"), weights);
  EXPECT_EQ(from("ckpt_file_name=" + weights.string() + "\n"), weights);
  EXPECT_NE(refusal(fastnn("task_type=finetune\n" + parent)).find("--initialize_from"),
            std::string::npos);
  file("config.toml", "");
  EXPECT_EQ(from(parent), folder);
  // A TensorFlow checkpoint is several files of other names; and pretrain loads nothing.
  EXPECT_NE(refusal(fastnn("task_type=finetune\nckpt_file_name=model.ckpt-12\n"))
                .find("TensorFlow checkpoint"),
            std::string::npos);
  EXPECT_NE(refusal(fastnn(parent)).find("--initialize_from"), std::string::npos);
}

TEST_F(Imports, UnknownKeysAndValuesOfAnotherTypeNameTheirLine) {
  const std::map<std::string, std::string> cases = {
      {"batch_sise=3", ":1:1: FastNN has no flag batch_sise; did you mean batch_size?"},
      {"\nbatch_size=many", ":2:1: batch_size: needs a whole number, received many"},
      {"use_fp16=maybe", "use_fp16: needs true or false, received maybe"},
      {"batch_size", "needs a line key=value"},
      {"batch_size=1\nbatch_size=2", "given twice"}};
  for (const auto& [text, said] : cases) {
    const auto received = message([&] { fastnn(text); });
    EXPECT_NE(received.find(said), std::string::npos) << received;
  }
}

}  // namespace
}  // namespace dimred::imports
