#include <algorithm>
#include <cctype>
#include <filesystem>

#include "imports/fastnn.h"
#include "support/option_values.h"
#include "support/options.h"
#include "support/split_list.h"
#include "support/text.h"

// Machines, model and run. Data: fastnn_data.cpp; optimizer and learning rate: fastnn_training.cpp.
namespace dimred::imports::fastnn {
namespace {

constexpr auto by_torchrun = "torchrun, srun or mpirun starts the ranks and says who they are";

void answer_job_name(Line& line, const Values&) {
  line.answer = line.value == "worker" ? Answer::no_effect : Answer::refused;
  line.text = line.answer == Answer::no_effect
                  ? std::string(by_torchrun)
                  : std::string("there are no parameter servers: all ranks are workers");
}

/// Names of ours for FastNN's networks, the same where the thing is the same; refused where there
/// is none of that kind.
void answer_model_name(Line& line, const Values&) {
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
                       {"alexnet_v2", "alexnet"},
                       {"lenet", "lenet"}};
  const std::vector<std::string> others = {
      "cifarnet",         "overfeat",         "inception_v1",     "inception_v2",
      "inception_v4",     "resnet_v1_200",    "resnet_v2_101",    "resnet_v2_152",
      "resnet_v2_200",    "mobilenet_v1",     "mobilenet_v1_075", "mobilenet_v1_050",
      "mobilenet_v1_025", "mobilenet_v2_140", "mobilenet_v2_035", "nasnet_cifar",
      "nasnet_mobile",    "nasnet_large",     "pnasnet_large",    "pnasnet_mobile"};
  if (const auto found = ours.find(line.value); found != ours.end()) {
    line.answer = Answer::mapped;
    line.settings = {{"model", found->second}};
    if (found->second != line.value) line.text = "torchvision's form of the network, not slim's";
    return;
  }
  line.answer = Answer::refused;
  line.instead = "model";
  const bool theirs = std::ranges::find(others, line.value) != others.end();
  std::vector<std::string> names = others;
  for (const auto& [name, own] : ours) names.push_back(name);
  const auto near = nearest(line.value, names);
  line.text = theirs ? "a network of FastNN's that is not among ours"
                     : "not a network of FastNN's" + (near ? "; did you mean " + *near + "?" : "");
}

void answer_fp16(Line& line, const Values&) {
  line.answer = Answer::mapped;
  const bool wanted = line.value == "true";
  line.settings = {{"precision", wanted ? "auto" : "float32"}};
  if (wanted)
    line.text =
        "bfloat16 where it is native, which needs no loss scale; weights stay float32 (precision = "
        "float16, on a GPU, is FastNN's own)";
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
  return [file](Line& line, const Values& values) {
    if (line.value.empty()) return;
    const auto path = checkpoint_of(values);
    if (path.empty()) {
      line.answer = Answer::refused;
      line.text = foreign;
      line.instead = "initialize_from";
    } else if (file == values.at("ckpt_file_name").empty()) {
      line.text = "of the path in ckpt_file_name";
    } else {
      line.answer = Answer::mapped;
      line.settings = {{"initialize_from", path.string()}};
      line.text =
          "FastNN loads what has the same name; here checkpoint_exclude_patterns = logits leaves "
          "the last layer out";
    }
  };
}

void answer_task_type(Line& line, const Values& values) {
  if (line.value == "pretrain") return;
  if (!checkpoint_of(values).empty()) {
    line.text = "initialize_from starts from other weights";
    return;
  }
  line.answer = Answer::refused;
  line.instead = "initialize_from";
  line.text =
      line.value == "finetune" ? foreign : "not a task of FastNN's; it has pretrain and finetune";
}

void answer_stop(Line& line, const Values& values) {
  if (has_hook(values, "StopAtStepHook")) {
    line.answer = Answer::mapped;
    line.settings = {{"stop_at_step", line.value}};
  } else {
    line.text = "hooks has no StopAtStepHook";
  }
  const bool decays =
      !values.at("decay_scheme").empty() && values.at("learning_rate_decay_type") != "fixed";
  if (decays) {
    line.answer = Answer::mapped;
    line.settings.push_back({"total_steps", line.value});
  }
}

void answer_log(Line& line, const Values& values) {
  const bool hooked = has_hook(values, "LoggingTensorHook");
  line.answer = hooked ? Answer::mapped : Answer::no_effect;
  if (hooked) line.settings = {{"log_loss_every_n_iters", line.value}};
  if (!hooked) line.text = "hooks has no LoggingTensorHook";
}

/// FastNN's 0 is none, as ours.
bool profiles(const Values& values) {
  return has_hook(values, "ProfilerHook") && values.at("profile_every_n_iters") != "0";
}

void answer_profile(Line& line, const Values& values) {
  line.answer = profiles(values) ? Answer::mapped : Answer::no_effect;
  if (profiles(values)) {
    line.settings = {{line.key, line.value}};
  } else if (!has_hook(values, "ProfilerHook")) {
    line.text = "hooks has no ProfilerHook";
  } else {
    line.text = "profile_every_n_iters is 0: no traces";
  }
}

/// Two names, of FastNN's code and of its documentation, for one thing.
void answer_statistics(Line& line, const Values& values) {
  const bool wanted = line.value == "true";
  const bool by_the_other =
      line.key == "log_trainable_vars_statistics" && values.at("print_model_statistics") == "true";
  line.answer = wanted && !by_the_other ? Answer::mapped : Answer::no_effect;
  if (line.answer == Answer::mapped) line.settings = {{"print_model_statistics", "true"}};
  if (line.answer == Answer::no_effect)
    line.text = by_the_other ? "the same as print_model_statistics"
                             : "dimred inspect --model lists every layer";
}

void answer_hooks(Line& line, const Values&) {
  const std::vector<std::string> known = {
      "stopatstephook", "profilerhook", "loggingtensorhook", "checkpointsaverhook"};
  for (const auto& word : split_list(lower_case(line.value))) {
    if (word.empty() || std::ranges::find(known, word) != known.end()) continue;
    line.answer = Answer::refused;
    line.text =
        "FastNN has StopAtStepHook, ProfilerHook, LoggingTensorHook, CheckpointSaverHook, not " +
        printable(word);
    return;
  }
  line.text =
      "they follow from stop_at_step, profile_every_n_iters, log_loss_every_n_iters and "
      "checkpoint_every";
}

void answer_fusion(Line& line, const Values&) {
  const double bytes = parse_number(line.value, {});
  line.answer = bytes > 0 ? Answer::mapped : Answer::refused;
  if (bytes > 0) line.settings = {{"bucket_mb", number_text(bytes / (1 << 20))}};
  if (bytes <= 0) line.text = "needs a number of bytes > 0";
}

}  // namespace

bool has_hook(const Values& values, std::string_view name) {
  const auto hooks = split_list(lower_case(values.at("hooks")));
  return std::ranges::find(hooks, lower_case(std::string(name))) != hooks.end();
}

std::vector<Key> machine_keys() {
  const auto started = none(by_torchrun);
  const auto pool = none("threads sets the processor threads of a rank");
  const auto servers = "there are no parameter servers: all ranks are workers";
  return {{"task_index", Type::integer, "0", started},
          {"taskId", Type::text, "", started},
          {"worker_hosts", Type::text, "", started},
          {"worker_count", Type::integer, "", started},
          {"job_name", Type::text, "worker", answer_job_name},
          {"ps_hosts", Type::text, "", unless_empty(servers)},
          {"ps_count", Type::integer, "", none(servers)},
          {"protocol", Type::text, "grpc", none("NCCL or Gloo carries the sums")},
          {"inter_op_parallelism_threads", Type::integer, "256", pool},
          {"intra_op_parallelism_threads", Type::integer, "96", pool},
          {"colocate_gradients_with_ops", Type::boolean, "true", none("of TensorFlow's placement")},
          {"log_device_placement", Type::boolean, "false", none("manifest.json says the device")},
          {"enable_paisoar",
           Type::boolean,
           "true",
           none("several ranks sum their gradients whenever torchrun starts them")},
          {"tensor_fusion_policy", Type::text, "default", none("buckets are by size")},
          {"communication_policy", Type::text, "nccl_fullring", none("NCCL chooses")},
          {"tensor_fusion_max_bytes", Type::integer, "8388608", answer_fusion}};
}

std::vector<Key> model_keys() {
  return {{"task_type", Type::text, "pretrain", answer_task_type},
          {"model_name", Type::text, "inception_resnet_v2", answer_model_name},
          {"model_dir", Type::text, "", of_checkpoint(false)},
          {"ckpt_file_name", Type::text, "", of_checkpoint(true)},
          {"use_fp16", Type::boolean, "true", answer_fp16},
          {"loss_scale", Type::number, "1", if_given("loss_scale", "1 is none")}};
}

std::vector<Key> run_keys() {
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
           local_folder("output", "no store of ours (hdfs, s3, gs); give a folder")},
          {"output_dir", Type::text, ".", none("checkpointDir is the run's folder")},
          {"summaryDir",
           Type::text,
           "",
           none("tensorboard = true writes events into the run's "
                "folder")},
          {"outputs", Type::text, "", none("of MaxCompute")}};
}

}  // namespace dimred::imports::fastnn
