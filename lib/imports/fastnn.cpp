#include "imports/fastnn.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "imports/import.h"
#include "options/option_values.h"
#include "options/options.h"
#include "support/errors.h"
#include "support/printable.h"
#include "support/suggestion.h"
#include "support/text.h"

namespace dimred::imports {
namespace fastnn {
namespace {

// The keys of FastNN's flags.py.

/// The file's values by key, FastNN's defaults where it has none; "" is None.
using Values = std::map<std::string, std::string, std::less<>>;

enum class Type { text, integer, number, boolean };

/// Fills answer, settings, text and instead of a line, whose key and value are set.
using Answerer = std::function<void(ImportedKey&, const Values&)>;

/// A flag of FastNN's, its default, and what becomes of it.
struct Flag {
  std::string name;
  Type type = Type::text;
  std::string fallback;  // FastNN's default; empty: None
  Answerer answer;
};

/// Our option of this name takes the value as it is.
Answerer as(std::string name) {
  return [name = std::move(name)](ImportedKey& line, const Values&) {
    line.map({{name, line.value}});
  };
}

/// The key has no effect here, and the text says why.
Answerer none(std::string why) {
  return [why = std::move(why)](ImportedKey& line, const Values&) { line.text = why; };
}

/// Like as() where the file gives the key. Its default there is for other machines and has no
/// effect here.
Answerer if_given(std::string name, std::string why) {
  return [name = std::move(name), why = std::move(why)](ImportedKey& line, const Values& values) {
    (line.given ? as(name) : none(why))(line, values);
  };
}

/// No effect with this value, else refused.
Answerer only(std::string value, std::string why, std::string instead = {}) {
  return [value = std::move(value), why = std::move(why), instead = std::move(instead)](
             ImportedKey& line, const Values&) {
    if (line.value != value) line.refuse(why, instead);
  };
}

/// Refused as soon as given.
Answerer unless_empty(std::string why, std::string instead = {}) {
  return only("", std::move(why), std::move(instead));
}

/// Whether our options may name such a URL (docs/reference/stores.md).
bool is_store(std::string_view scheme) {
  constexpr std::string_view stores[] = {"hdfs", "s3", "gs", "oss", "http", "https", "file"};
  return std::ranges::find(stores, scheme) != std::end(stores);
}

/// A folder of ours under this name, refused with the remedy where it lies in an object store.
Answerer local_folder(std::string name, std::string remedy) {
  return [name = std::move(name), remedy = std::move(remedy)](ImportedKey& line, const Values&) {
    if (line.value.empty()) return;
    const auto scheme_end = line.value.find("://");
    const bool remote =
        scheme_end != std::string::npos && !is_store(line.value.substr(0, scheme_end));
    if (remote) {
      line.refuse(remedy, name);
    } else {
      line.map({{name, line.value}});
    }
  };
}

/// The listed files of dataset_dir as one path of ours: a file, or a pattern of several.
std::string files_of(const std::string& folder, const std::string& names) {
  const auto files = split_list(names);
  const auto separator = folder.empty() || folder.ends_with('/') ? "" : "/";
  return formatted("{}{}{}", folder, separator, files.size() == 1 ? files[0] : "{" + names + "}");
}

bool is_remote(const std::string& path) { return path.find("://") != std::string::npos; }

/// Answers train_files or eval_files with the option of ours that names them.
Answerer chosen_files(std::string option) {
  return [option = std::move(option)](ImportedKey& line, const Values& values) {
    const auto& folder = values.at("dataset_dir");
    if (line.value.empty()) {
      line.text = option == "data"
                      ? "dimred finds the files in the folder"
                      : "dimred uses the test part of the folder, if the folder has one";
    } else if (folder.empty()) {
      line.refuse("needs dataset_dir, the folder of the files", option);
    } else if (is_remote(folder) && split_list(line.value).size() > 1) {
      line.refuse("give several remote files as one pattern", option);
    } else {
      line.map({{option, files_of(folder, line.value)}});
    }
  };
}

/// The data set's folder, unless train_files chooses files of it.
Answerer folder_of_data(std::string remedy) {
  return
      [whole = local_folder("data", std::move(remedy))](ImportedKey& line, const Values& values) {
        whole(line, values);
        if (line.answer == Answer::mapped && !values.at("train_files").empty()) {
          line.answer = Answer::no_effect;
          line.settings.clear();
          line.text = "train_files names the files";
        }
      };
}

/// True when the hook is in the list of hooks, in any case of letters.
bool has_hook(const Values& values, std::string_view name) {
  const auto hooks = split_list(lower_case(values.at("hooks")));
  return std::ranges::find(hooks, lower_case(std::string(name))) != hooks.end();
}

// Machines, model and run.

constexpr auto by_torchrun = "torchrun, srun or mpirun starts and numbers the ranks";

void answer_job_name(ImportedKey& line, const Values&) {
  if (line.value != "worker") {
    line.refuse("dimred has no parameter servers; all ranks are workers");
  } else {
    line.text = by_torchrun;
  }
}

/// Names of ours for FastNN's networks, the same where the thing is the same; else the module that
/// `dimred model` writes.
void answer_model_name(ImportedKey& line, const Values& values) {
  const Values ours = {{"inception_v3", "inception_v3"},
                       {"inception_resnet_v2", "inception_resnet_v2"},
                       {"resnet_v1_50", "resnet50"},
                       {"resnet_v1_101", "resnet101"},
                       {"resnet_v1_152", "resnet152"},
                       {"resnet_v2_50", "resnet_v2_50"},
                       {"mobilenet_v2", "mobilenet_v2"},
                       {"vgg_a", "vgg11"},
                       {"vgg_16", "vgg16"},
                       {"vgg_19", "vgg19"},
                       {"alexnet_v2", "alexnet"}};
  // The networks that `dimred model` writes, and the side of their images.
  static const std::map<std::string, const char*> modules = {
      {"cifarnet", "32"},          {"overfeat", "231"},         {"inception_v1", "224"},
      {"inception_v2", "224"},     {"inception_v4", "299"},     {"resnet_v1_200", "224"},
      {"resnet_v2_101", "224"},    {"resnet_v2_152", "224"},    {"resnet_v2_200", "224"},
      {"mobilenet_v1", "224"},     {"mobilenet_v1_075", "224"}, {"mobilenet_v1_050", "224"},
      {"mobilenet_v1_025", "224"}, {"mobilenet_v2_140", "224"}, {"mobilenet_v2_035", "224"},
      {"nasnet_cifar", "32"},      {"nasnet_mobile", "224"},    {"nasnet_large", "331"},
      {"pnasnet_large", "331"},    {"pnasnet_mobile", "224"}};
  if (line.value == "lenet")  // whose preprocessing cuts nothing out of photographs
    return line.map({{"model", "lenet"}, {"image_size", "28"}});
  if (const auto found = ours.find(line.value); found != ours.end()) {
    const bool same = found->second == line.value;
    return line.map({{"model", found->second}},
                    same ? "" : "dimred has torchvision's form of the network, not slim's");
  }
  if (const auto found = modules.find(line.value); found != modules.end()) {
    const auto file = line.value + ".pt";
    if (std::filesystem::exists(file))
      return line.map({{"model", file}, {"image_size", found->second}},
                      "dimred model writes this file");
    return line.refuse(
        formatted(
            "needs the file {} in this folder; `dimred model {} --num_classes {}` writes this file",
            file,
            line.value,
            values.at("num_classes")),
        "model");
  }
  std::vector<std::string> names{"lenet"};
  for (const auto& [name, own] : ours) names.push_back(name);
  for (const auto& [name, size] : modules) names.push_back(name);
  line.refuse("FastNN has no such network" + suggestion(line.value, names), "model");
}

void answer_fp16(ImportedKey& line, const Values&) {
  if (line.value != "true") return line.map({{"precision", "float32"}});
  line.map({{"precision", "auto"}},
           "auto takes bfloat16 on a device with native bfloat16; bfloat16 needs no loss scale, "
           "and weights stay float32; FastNN uses float16 (precision = float16, on a GPU)");
}

constexpr auto foreign =
    "a TensorFlow checkpoint cannot be read; save its weights as safetensors, PyTorch's .pt or "
    "MindSpore's .ckpt";

/// The start of a finetune, where it can be read here: a file, or a run folder of ours.
std::filesystem::path checkpoint_of(const Values& values) {
  const std::filesystem::path folder = values.at("model_dir"), file = values.at("ckpt_file_name");
  if (values.at("task_type") != "finetune") return {};
  const auto path = file.empty() ? folder : folder / file;  // the file alone where it is absolute
  const bool run = file.empty() && std::filesystem::exists(folder / "config.toml");
  return run || std::filesystem::is_regular_file(path) ? path : std::filesystem::path();
}

/// The last given of the two keys maps, with the path of both.
Answerer of_checkpoint(bool file) {
  return [file](ImportedKey& line, const Values& values) {
    if (line.value.empty()) return;
    const auto path = checkpoint_of(values);
    if (path.empty()) {
      line.refuse(foreign, "initialize_from");
    } else if (file == values.at("ckpt_file_name").empty()) {
      line.text = "ckpt_file_name gives the path";
    } else {
      line.map({{"initialize_from", path.string()}},
               "FastNN loads tensors with the same name; here, checkpoint_exclude_patterns = "
               "logits skips the last layer");
    }
  };
}

void answer_task_type(ImportedKey& line, const Values& values) {
  if (line.value == "pretrain") return;
  if (!checkpoint_of(values).empty()) {
    line.text = "initialize_from starts from other weights";
    return;
  }
  line.refuse(line.value == "finetune"
                  ? foreign
                  : "FastNN has no such task; the tasks are pretrain and finetune",
              "initialize_from");
}

void answer_stop(ImportedKey& line, const Values& values) {
  (has_hook(values, "StopAtStepHook") ? as("stop_at_step") : none("hooks has no StopAtStepHook"))(
      line, values);
  const bool decays =
      !values.at("decay_scheme").empty() && values.at("learning_rate_decay_type") != "fixed";
  if (decays) {
    line.answer = Answer::mapped;
    line.settings.push_back({"total_steps", line.value});
  }
}

void answer_log(ImportedKey& line, const Values& values) {
  (has_hook(values, "LoggingTensorHook") ? as("log_loss_every_n_iters")
                                         : none("hooks has no LoggingTensorHook"))(line, values);
}

void answer_profile(ImportedKey& line, const Values& values) {
  if (!has_hook(values, "ProfilerHook")) {
    line.text = "hooks has no ProfilerHook";
  } else if (values.at("profile_every_n_iters") == "0") {  // none, as ours
    line.text = "profile_every_n_iters = 0 records no traces";
  } else {
    line.map({{line.key, line.value}});
  }
}

/// Two names, of FastNN's code and of its documentation, for one thing.
void answer_statistics(ImportedKey& line, const Values& values) {
  const bool wanted = line.value == "true";
  const bool by_the_other =
      line.key == "log_trainable_vars_statistics" && values.at("print_model_statistics") == "true";
  if (wanted && !by_the_other) return line.map({{"print_model_statistics", "true"}});
  line.text = by_the_other ? "print_model_statistics does the same"
                           : "dimred inspect --model lists every layer";
}

void answer_hooks(ImportedKey& line, const Values&) {
  const std::vector<std::string> known = {
      "stopatstephook", "profilerhook", "loggingtensorhook", "checkpointsaverhook"};
  for (const auto& word : split_list(lower_case(line.value))) {
    if (word.empty() || std::ranges::find(known, word) != known.end()) continue;
    return line.refuse(
        "FastNN has only StopAtStepHook, ProfilerHook, LoggingTensorHook and CheckpointSaverHook, "
        "not " +
        printable(word));
  }
  line.text =
      "stop_at_step, profile_every_n_iters, log_loss_every_n_iters and checkpoint_every replace "
      "the hooks";
}

void answer_fusion(ImportedKey& line, const Values&) {
  const double bytes = parse_number(line.value, {});
  if (bytes <= 0) return line.refuse("needs a number of bytes > 0");
  line.map({{"bucket_mb", number_text(bytes / (1 << 20))}});
}

std::vector<Flag> machine_keys() {
  const auto started = none(by_torchrun);
  const auto pool = none("threads sets the processor threads of a rank");
  const auto servers = "dimred has no parameter servers; all ranks are workers";
  return {{"task_index", Type::integer, "0", started},
          {"taskId", Type::text, "", started},
          {"worker_hosts", Type::text, "", started},
          {"worker_count", Type::integer, "", started},
          {"job_name", Type::text, "worker", answer_job_name},
          {"ps_hosts", Type::text, "", unless_empty(servers)},
          {"ps_count", Type::integer, "", none(servers)},
          {"protocol", Type::text, "grpc", none("NCCL or Gloo sums the gradients")},
          {"inter_op_parallelism_threads", Type::integer, "256", pool},
          {"intra_op_parallelism_threads", Type::integer, "96", pool},
          {"colocate_gradients_with_ops",
           Type::boolean,
           "true",
           none("the flag belongs to TensorFlow's placement")},
          {"log_device_placement", Type::boolean, "false", none("manifest.json names the device")},
          {"enable_paisoar",
           Type::boolean,
           "true",
           none("several ranks sum their gradients whenever torchrun starts them")},
          {"tensor_fusion_policy", Type::text, "default", none("dimred forms buckets by size")},
          {"communication_policy", Type::text, "nccl_fullring", none("NCCL chooses the algorithm")},
          {"tensor_fusion_max_bytes", Type::integer, "8388608", answer_fusion}};
}

std::vector<Flag> model_keys() {
  return {{"task_type", Type::text, "pretrain", answer_task_type},
          {"model_name", Type::text, "inception_resnet_v2", answer_model_name},
          {"model_dir", Type::text, "", of_checkpoint(false)},
          {"ckpt_file_name", Type::text, "", of_checkpoint(true)},
          {"use_fp16", Type::boolean, "true", answer_fp16},
          {"loss_scale",
           Type::number,
           "1",
           if_given("loss_scale", "a loss scale of 1 changes nothing")}};
}

std::vector<Flag> run_keys() {
  const auto inspect = none("dimred inspect of a state lists the optimiser's vectors");
  return {{"num_epochs", Type::integer, "100", as("epochs")},
          {"batch_size", Type::integer, "32", as("batch_size")},
          {"stop_at_step", Type::integer, "100", answer_stop},
          {"log_loss_every_n_iters", Type::integer, "10", answer_log},
          {"profile_every_n_iters", Type::integer, "0", answer_profile},
          {"profile_at_task", Type::integer, "0", answer_profile},
          {"log_trainable_vars_statistics", Type::boolean, "false", answer_statistics},
          {"print_model_statistics", Type::boolean, "false", answer_statistics},
          {"log_optimizer_vars_statistics", Type::boolean, "false", inspect},
          {"hooks",
           Type::text,
           "StopAtStepHook,ProfilerHook,LoggingTensorHook,CheckpointSaverHook",
           answer_hooks},
          {"save_checkpoints_steps",
           Type::integer,
           "1000",
           none("states are saved every checkpoint_every epochs, and when the run is stopped")},
          {"checkpointDir",
           Type::text,
           "",
           local_folder(
               "output",
               "dimred cannot write to this store, only to hdfs, s3, gs and oss; give a folder")},
          {"output_dir", Type::text, ".", none("checkpointDir is the run's folder")},
          {"summaryDir",
           Type::text,
           "",
           none("tensorboard = true writes events into the run's "
                "folder")},
          {"outputs", Type::text, "", none("dimred does not write to MaxCompute")}};
}

// The data set, its files and the images' preparation.

/// A buffer is of data in several files.
void answer_shuffle_buffer(ImportedKey& line, const Values& values) {
  const bool one_file = split_list(values.at("train_files")).size() == 1;
  (one_file ? none("every epoch shuffles all samples of one file")
            : if_given("shuffle_buffer_size", "every epoch shuffles all samples"))(line, values);
}

bool is_mock(const Values& values) {
  return values.at("dataset_name") == "mock" && values.at("dataset_dir").empty();
}

void answer_dataset_name(ImportedKey& line, const Values& values) {
  const std::vector<std::string> names = {"mock", "cifar10", "mnist", "flowers", "imagenet"};
  if (std::ranges::find(names, line.value) == names.end()) {
    line.refuse("FastNN has no such data set" + suggestion(line.value, names));
  } else if (is_mock(values)) {
    line.map({{"dataset", "mock"}});
  } else {
    line.text = "dimred finds the format from the files in dataset_dir";
  }
}

/// FastNN's own factory: without a name, the network's family says how images are prepared.
void answer_preprocessing(ImportedKey& line, const Values& values) {
  const auto name = line.value.empty() ? values.at("model_name") : line.value;
  const std::vector<std::pair<std::string, std::string>> families = {{"inception", "inception"},
                                                                     {"alexnet", "inception"},
                                                                     {"mobilenet", "inception"},
                                                                     {"nasnet", "inception"},
                                                                     {"pnasnet", "inception"},
                                                                     {"vgg", "vgg"},
                                                                     {"resnet", "vgg"},
                                                                     {"cifarnet", "cifarnet"},
                                                                     {"lenet", "lenet"}};
  for (const auto& [begin, ours] : families) {
    if (name.starts_with(begin)) return line.map({{"preprocessing_name", ours}});
  }
  line.refuse("FastNN has no preprocessing for " + printable(name), "preprocessing_name");
}

/// A number that the file gives is checked against the data; the mock set needs one.
void answer_classes(ImportedKey& line, const Values& values) {
  (line.given || is_mock(values) ? as("num_classes")
                                 : none("dimred counts the classes in the data set"))(line, values);
}

void answer_samples(ImportedKey& line, const Values& values) {
  (line.given || is_mock(values) ? as("num_samples")
                                 : none("dimred counts the samples in the files"))(line, values);
}

std::vector<Flag> data_keys() {
  return {
      {"dataset_name", Type::text, "mock", answer_dataset_name},
      {"dataset_dir",
       Type::text,
       "",
       folder_of_data("dimred cannot read from this store, only from hdfs, s3, gs, oss and http; "
                      "copy the files to a folder")},
      {"file_pattern",
       Type::text,
       "",
       unless_empty("dimred finds the files in the folder", "data")},
      {"reader",
       Type::text,
       "",
       unless_empty("the reader is a TensorFlow class; dimred finds the format from the files")},
      {"num_sample_per_epoch", Type::integer, "1000000", answer_samples},
      {"train_files", Type::text, "", chosen_files("data")},
      {"eval_files", Type::text, "", chosen_files("test_data")},
      {"num_preprocessing_threads",
       Type::integer,
       "16",
       if_given("num_preprocessing_threads", "dimred uses all cores of this rank")},
      {"preprocessing_name", Type::text, "", answer_preprocessing},
      {"shuffle_buffer_size", Type::integer, "1024", answer_shuffle_buffer},
      {"prefetch_buffer_size", Type::integer, "32", as("prefetch")},
      {"num_parallel_batches",
       Type::integer,
       "8",
       if_given("num_parallel_batches", "dimred prepares enough batches to keep the threads busy")},
      {"datasets_use_caching",
       Type::boolean,
       "false",
       if_given("datasets_use_caching", "images of one size stay in memory")},
      {"num_classes", Type::integer, "100", answer_classes},
      {"labels_offset",
       Type::integer,
       "0",
       if_given("labels_offset", "dimred uses the labels unchanged")},
      {"tables",
       Type::text,
       "",
       unless_empty("dimred does not read MaxCompute tables; give a folder", "data")},
      {"buckets", Type::text, "", none("dimred takes folders or URLs instead of buckets")}};
}

// FastNN's learning rate (schedules/fastnn.cpp) and optimizers (optimizers/).

bool decays(const Values& values, const std::string& type) {
  return values.at("learning_rate_decay_type") == type && !values.at("decay_scheme").empty();
}

bool warms_up(const Values& values) {
  return values.at("learning_rate_decay_type") != "fixed" && values.at("warmup_steps") != "0";
}

void answer_type(ImportedKey& line, const Values& values) {
  const bool scheme = !values.at("decay_scheme").empty();
  if (line.value == "fixed") {
    line.map({{"schedule", "constant"}}, "ignores warm-up and decay, as FastNN does");
  } else if (line.value == "exponential" || line.value == "polynomial") {
    if (!scheme) {
      line.map({{"schedule", "constant"}}, "without a decay_scheme, FastNN never lowers the rate");
    } else if (line.value == "polynomial") {
      line.map({{"schedule", "fastnn-polynomial"}},
               "as in FastNN, the rate reaches end_learning_rate within one interval; with "
               "schedule = polynomial, the rate reaches this value at the end of training");
    } else {
      line.map({{"schedule", "exponential"}});
    }
  } else {
    line.refuse(line.value == "cosine" ? "only FastNN's HybridParallel copy has cosine"
                                       : "FastNN has only fixed, exponential and polynomial",
                "schedule");
  }
}

void answer_decay_scheme(ImportedKey& line, const Values& values) {
  const std::vector<std::string> names = {"luong5", "luong10", "luong234"};
  if (line.value.empty()) return;
  if (std::ranges::find(names, line.value) == names.end()) {
    line.refuse("FastNN has only luong5, luong10 and luong234", "decay_scheme");
  } else if (decays(values, "exponential") || decays(values, "polynomial")) {
    line.map({{"decay_scheme", line.value}});
  } else {
    line.text = "learning_rate_decay_type=fixed ignores this flag, as in FastNN";
  }
}

void answer_factor(ImportedKey& line, const Values& values) {
  if (decays(values, "exponential")) {
    line.map({{"factor", line.value}},
             "FastNN's documentation says 0.5, but FastNN's code uses this factor");
  } else {
    line.text = "only exponential with a decay_scheme uses this flag";
  }
}

void answer_end(ImportedKey& line, const Values& values) {
  (decays(values, "polynomial")
       ? as("end_learning_rate")
       : none("only polynomial with a decay_scheme uses this flag"))(line, values);
}

void answer_warmup_steps(ImportedKey& line, const Values& values) {
  if (line.value == "0") return;
  if (warms_up(values)) {
    line.map({{"warmup_steps", line.value}, {"warmup_scheme", "t2t"}});
  } else {
    line.text = "learning_rate_decay_type=fixed ignores this flag, as in FastNN";
  }
}

void answer_warmup_scheme(ImportedKey& line, const Values& values) {
  if (line.value == "t2t") {
    line.text = warms_up(values) ? "warmup_steps sets the scheme" : "the run has no warm-up";
    return;
  }
  line.refuse(
      "t2t is FastNN's only warm-up scheme; with any other name, FastNN silently trains without a "
      "warm-up",
      "warmup_scheme");
}

void answer_optimizer(ImportedKey& line, const Values&) {
  const std::vector<std::string> names = {
      "adadelta", "adagrad", "adam", "adamweightdecay", "ftrl", "momentum", "rmsprop", "sgd"};
  if (std::ranges::find(names, line.value) != names.end())
    return line.map({{"optimizer", line.value}});
  line.refuse("FastNN has no such optimizer" + suggestion(line.value, names), "optimizer");
}

/// A parameter of some optimizers; no effect with the others.
Answerer of(std::vector<std::string> users, std::string name) {
  return
      [users = std::move(users), name = std::move(name)](ImportedKey& line, const Values& values) {
        const auto& chosen = values.at("optimizer");
        (std::ranges::find(users, chosen) != users.end()
             ? as(name)
             : none(formatted("optimizer={} does not use this flag", chosen)))(line, values);
      };
}

void answer_weight_decay(ImportedKey& line, const Values& values) {
  if (values.at("optimizer") == "adamweightdecay") {
    line.map({{"weight_decay", "0.01"}}, "FastNN has this constant for adamweightdecay");
  } else {
    line.map({{"weight_decay", line.value}},
             "dimred adds this L2 term to the gradient; FastNN's trainer never adds its "
             "regularisation loss");
  }
}

void answer_clip(ImportedKey& line, const Values&) {
  if (!line.value.empty()) line.map({{"max_gradient_norm", line.value}});
}

std::vector<Flag> schedule_keys() {
  return {{"learning_rate", Type::number, "0.01", as("learning_rate")},
          {"learning_rate_decay_type", Type::text, "exponential", answer_type},
          {"end_learning_rate", Type::number, "0.0001", answer_end},
          {"learning_rate_decay_factor", Type::number, "0.94", answer_factor},
          {"warmup_steps", Type::integer, "0", answer_warmup_steps},
          {"warmup_scheme", Type::text, "t2t", answer_warmup_scheme},
          {"decay_scheme", Type::text, "", answer_decay_scheme}};
}

std::vector<Flag> optimizer_keys() {
  const std::vector<std::string> adams = {"adam", "adamweightdecay"};
  const std::vector<std::string> with_epsilon = {"adadelta", "adam", "adamweightdecay", "rmsprop"};
  return {
      {"optimizer", Type::text, "rmsprop", answer_optimizer},
      {"weight_decay", Type::number, "0.00004", answer_weight_decay},
      {"max_gradient_norm", Type::number, "", answer_clip},
      {"opt_epsilon", Type::number, "1", of(with_epsilon, "opt_epsilon")},
      {"adadelta_rho", Type::number, "0.95", of({"adadelta"}, "adadelta_rho")},
      {"adagrad_initial_accumulator_value",
       Type::number,
       "0.1",
       of({"adagrad"}, "adagrad_initial_accumulator_value")},
      {"adam_beta1", Type::number, "0.9", of(adams, "adam_beta1")},
      {"adam_beta2", Type::number, "0.999", of(adams, "adam_beta2")},
      {"ftrl_learning_rate_power", Type::number, "-0.5", of({"ftrl"}, "ftrl_learning_rate_power")},
      {"ftrl_initial_accumulator_value",
       Type::number,
       "0.1",
       of({"ftrl"}, "ftrl_initial_accumulator_value")},
      {"ftrl_l1", Type::number, "0", of({"ftrl"}, "ftrl_l1")},
      {"ftrl_l2", Type::number, "0", of({"ftrl"}, "ftrl_l2")},
      {"momentum", Type::number, "0.9", of({"momentum"}, "momentum")},
      {"rmsprop_momentum", Type::number, "0.9", of({"rmsprop"}, "rmsprop_momentum")},
      {"rmsprop_decay", Type::number, "0.9", of({"rmsprop"}, "rmsprop_decay")}};
}

// The file.

std::vector<Flag> all_keys() {
  std::vector<Flag> keys;
  for (const auto& part :
       {machine_keys(), data_keys(), model_keys(), schedule_keys(), optimizer_keys(), run_keys()})
    keys.insert(keys.end(), part.begin(), part.end());
  return keys;
}

/// Alibaba's documentation spells enable_paisoar so.
constexpr std::string_view misspelt = "enable_paisora";

const Flag& known(const std::vector<Flag>& keys, const ConfigEntry& entry) {
  const std::string name = entry.name == misspelt ? "enable_paisoar" : entry.name;
  const auto found = std::ranges::find(keys, name, &Flag::name);
  if (found == keys.end())
    refuse("{}: FastNN has no flag {}{}",
           entry.source,
           printable(entry.name),
           suggestion(entry.name, texts_of(keys, &Flag::name)));
  return *found;
}

/// The value in our spelling: true / false, and a number that our options will read.
std::string checked(const Flag& key, const ConfigEntry& entry) {
  try {
    switch (key.type) {
      case Type::integer:
        return std::to_string(parse_integer(entry.text, {}));
      case Type::number:
        return number_text(parse_number(entry.text, {}));
      case Type::boolean:
        return parse_boolean(entry.text) ? "true" : "false";
      case Type::text:
        return parse_text(entry.text);
    }
  } catch (const std::invalid_argument& rule) {
    refuse("{}: {}: {}, received {}", entry.source, entry.name, rule.what(), printable(entry.text));
  }
  return {};
}

struct Given {
  const Flag* key;
  ConfigEntry entry;
  std::string value;
};

/// The file's lines, checked; None is as if the key were not there.
std::vector<Given> read_given(const std::vector<Flag>& keys, const std::filesystem::path& file) {
  std::vector<Given> given;
  std::set<std::string> seen;
  for (auto& entry : read_config_file(file)) {
    const auto& key = known(keys, entry);
    require(seen.insert(key.name).second, "[fastnn] {}: {}: given twice", entry.source, key.name);
    auto value = entry.text == "None" ? key.fallback : checked(key, entry);
    given.push_back({&key, std::move(entry), std::move(value)});
  }
  return given;
}

}  // namespace
}  // namespace fastnn

Import read_fastnn(const std::filesystem::path& file) {
  const auto keys = fastnn::all_keys();
  const auto given = fastnn::read_given(keys, file);
  fastnn::Values values;
  for (const auto& key : keys) values[key.name] = key.fallback;
  for (const auto& [key, entry, value] : given) values[key->name] = value;

  Import import{.title = formatted("{}: FastNN hyper-parameters", file), .command = "stage1"};
  std::set<std::string> reported;
  for (const auto& [key, entry, value] : given) {
    ImportedKey line{.source = entry.source, .key = entry.name, .value = value};
    key->answer(line, values);
    if (entry.name == fastnn::misspelt)
      line.text = formatted(
          "read as enable_paisoar, because FastNN's documentation misspells this flag; {}",
          line.text);
    line.value = entry.text;  // as the file has it
    if (entry.text == "None" && line.text.empty()) line.text = "None means not given";
    reported.insert(key->name);
    import.lines.push_back(std::move(line));
  }
  for (const auto& key : keys) {
    if (reported.contains(key.name)) continue;
    ImportedKey line{
        .source = file.string(), .key = key.name, .value = key.fallback, .given = false};
    key.answer(line, values);
    import.lines.push_back(std::move(line));
  }
  return import;
}

}  // namespace dimred::imports
