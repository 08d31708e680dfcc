#include "training/options.h"

#include "data/open.h"
#include "models/network.h"
#include "models/script.h"
#include "support/text.h"

namespace dimred::training {

models::AmpLists amp_lists(const ModelOptions& options) {
  return {split_list(options.amp_allow), split_list(options.amp_deny)};
}

namespace {

/// Where samples are and which of them a rank takes.
void add_source_options(OptionTable& table, DataOptions& options) {
  table
      .add("data",
           &options.data,
           "folder, list of files or pattern (default: Debian's dataset-fashion-mnist)")
      .role(OptionRole::data)
      .essential()
      .locate_after_adoption();
  data::add_kind_option(table, options.dataset, "what data holds; auto looks; mock needs no files");
  table.add(
      "test_data", &options.test_data, "the test set (default: found beside the training set)");
  table
      .add("data_cache",
           &options.data_cache,
           "folder for indices and decompressed copies of record files (default: beside the data, "
           "else ~/.cache/dimred)")
      .of_this_machine()
      .may_change();
  data::add_stream_options(table, options.stream_cache, options.stream_fetches);
  table.add("labels_offset",
            &options.labels_offset,
            "of tfrecord and base64: label = stored label - labels_offset",
            between(-1'000'000, 1'000'000));
  table.add(
      "shuffle_buffer_size",
      &options.shuffle_buffer_size,
      "for data in several record files, with shard = samples: shuffle the files, then within "
      "windows of N samples; 0: all samples at once",
      at_least(0));
  table.add_choice(
      "shard",
      &options.shard,
      "what ranks share: each batch's samples, or files; with files, another number of "
      "ranks sees other batches",
      {{"samples", Sharding::samples}, {"files", Sharding::files}});
  table.add(
      "num_classes",
      &options.num_classes,
      "outputs of the network, 0: as many as the data has classes; fewer are refused, more are "
      "never trained on",
      between(0, 1'000'000));
  table.add("num_samples",
            &options.num_samples,
            "training samples of dataset = mock (0: 50,000); other data must have as many, 0: any "
            "number",
            at_least(0));
  table.add("mock_shape",
            &options.mock_shape,
            "channels, height, width of dataset = mock",
            between(1, 1 << 15));
}

/// Adds the options of caching in memory and of held-out samples.
void add_split_options(OptionTable& table, DataOptions& options) {
  table
      .add("datasets_use_caching",
           &options.datasets_use_caching,
           "decode images of one size once and keep them in memory")
      .may_change();
  table
      .add("cache_memory",
           &options.cache_memory,
           "GB that a data set may take for that on each rank",
           between(0, 1e6))
      .may_change();
  table
      .add("validation_fraction",
           &options.validation_fraction,
           "part of the training set held out for selection",
           less_than(1))
      .essential();
  table
      .add("split_seed",
           &options.split_seed,
           "which samples are held out (default: seed)",
           at_least(0))
      .needs(above("validation_fraction"));
  const auto* const write_labels = "write the wrong labels into the data";
  table.removed("label_noise", "0", "8b694755", write_labels);
  table.removed("label_noise_seed", "", "8b694755", write_labels);
  table.add("train_samples",
            &options.train_samples,
            "use only N training samples, evenly spread over the set; 0: all",
            at_least(0));
  table.add("test_samples",
            &options.test_samples,
            "use only N test samples, evenly spread over the set; 0: all",
            at_least(0));
}

}  // namespace

void add_data_options(OptionTable& table, DataOptions& options) {
  table.group("Data", {.persists = true});
  add_source_options(table, options);
  add_split_options(table, options);
  std::vector<std::pair<std::string, std::optional<data::Recipe>>> recipes{{"auto", std::nullopt}};
  for (const auto& [name, recipe] : data::recipe_names()) recipes.emplace_back(name, recipe);
  table.add_choice(
      "preprocessing_name",
      &options.preprocessing_name,
      "how images are cropped, augmented and normalised; none: pad and flip below, the "
      "training set's mean and deviation; auto: none, but for images of differing sizes what "
      "the network was made for",
      recipes);
  table.add("image_size",
            &options.image_size,
            "side of the images that the network sees; where preprocessing_name cuts them out: "
            "what it was made for unless given, 0: the recipe's own; else 0: the data's",
            between(0, 4096));
  table.add("colour_jitter",
            &options.colour_jitter,
            "brightness, contrast, saturation: each factor is drawn from 1 - x to 1 + x",
            between(0, 10));
  table.add_choice("on_bad_sample",
                   &options.skip_bad_samples,
                   "a sample that cannot be decoded ends the run, or is counted and the next one "
                   "takes its place (in evaluation: none)",
                   {{"fail", false}, {"skip", true}});
  table.add("pad", &options.pad, "pad by N pixels and crop at random; 0: off", between(0, 16));
  table.add("flip", &options.flip, "flip left and right at random");
}

namespace {

void add_initialization_options(OptionTable& table, ModelOptions& options) {
  table.add("batch_norm_eps",
            &options.batch_norm.eps,
            "that BatchNorm adds to the variance, in the place of the network's own (MindSpore's "
            "ResNet: 1e-4)",
            positive(1));
  table.add("batch_norm_momentum",
            &options.batch_norm.momentum,
            "part of a batch in BatchNorm's running statistics, in the place of the network's own "
            "(what MindSpore calls 0.9 is 0.1)",
            positive(1));
  table.add_choice("initialization",
                   &options.initialization,
                   "of fresh weights: as the network's authors draw them, or as MindSpore's ResNet "
                   "recipe does (Xavier uniform, truncated normal)",
                   {{"network", models::Initialization::network},
                    {"mindspore", models::Initialization::mindspore}});
}

}  // namespace

void add_model_options(OptionTable& table, ModelOptions& options) {
  table.group("Model", {.persists = true});
  table
      .add("model",
           &options.model,
           "network by name: " + name_list(models::network_names()) +
               "; or a TorchScript module's file, *.pt, which is trained from the weights in it "
               "(code that runs with your rights: docs/explanation/threat_model.md)")
      .may_name_a_file()
      .essential();
  table.add(
      "model_digest",
      &options.model_digest,
      "of a TorchScript module's file (XXH3-128), as a run's config.toml has it: another file "
      "is refused");
  table.add_choice(
      "precision",
      &options.precision,
      "of the forward and backward pass; weights stay float32 (auto: bfloat16 where native; "
      "float16: CUDA alone)",
      {{"float32", PrecisionChoice::float32},
       {"bfloat16", PrecisionChoice::bfloat16},
       {"float16", PrecisionChoice::float16},
       {"auto", PrecisionChoice::automatic}});
  const auto reduced = !is("precision", {"float32"});
  table
      .add("amp_allow",
           &options.amp_allow,
           "operators of ATen that run in precision beside those that LibTorch's autocast has: "
           "avg_pool2d,batch_norm")
      .alias("custom_white_list")
      .needs(reduced);
  table.add("amp_deny", &options.amp_deny, "operators that run in float32 all the same")
      .alias("custom_black_list")
      .needs(reduced);
  table.add_choice("memory_format",
                   &options.memory_format,
                   "of images and convolution weights in memory",
                   {{"contiguous", layout::MemoryFormat::contiguous},
                    {"channels_last", layout::MemoryFormat::channels_last}});
  table.add_choice(
      "batchnorm_statistics",
      &options.batchnorm_statistics,
      "over ranks; averaged, rank0: normalise by the rank's own batch and average "
      "running statistics at every step, or keep rank 0's; synchronized: by the global "
      "batch",
      {{"averaged", BatchNormPolicy::averaged},
       {"rank0", BatchNormPolicy::rank0},
       {"synchronized", BatchNormPolicy::synchronized}});
  add_initialization_options(table, options);
  table.add(
      "trainable_include_patterns",
      &options.trainable_include_patterns,
      "train only parameters whose names these match: regular expressions between commas, "
      "matched anywhere, logits: the network's last layer; the others are frozen and leave M, "
      "their BatchNorm layers normalise by their running statistics (default: all)");
  table.add("trainable_exclude_patterns",
            &options.trainable_exclude_patterns,
            "and of these freeze those that these match");
}

void add_loss_options(OptionTable& table, CommonOptions& options) {
  auto& loss = options.loss;
  table.group("Loss", {.persists = true});
  table.add("label_smoothing",
            &loss.label_smoothing,
            "smoothing s of the cross-entropy's target in training; held-out losses have none",
            less_than(1));
  table
      .add_choice("smoothing_form",
                  &loss.smoothing_form,
                  "pytorch: others s/C; mindspore: others s/(C-1), true class 1-s",
                  {{"pytorch", models::SmoothingForm::pytorch},
                   {"mindspore", models::SmoothingForm::mindspore}})
      .needs(given("label_smoothing"));
  models::add_options(table, options.head);
}

namespace {

constexpr double largest_batch = 1 << 30;

void add_batch_options(OptionTable& table, RunOptions& options) {
  table
      .add("batch_size",
           &options.batch_size,
           "samples per rank and step (default: 64, or global_batch_size / ranks)",
           between(1, largest_batch))
      .may_change()
      .essential();
  table
      .add("gradient_accumulation",
           &options.gradient_accumulation,
           "passes that a rank's batch of a step is split into, to save memory",
           at_least(1))
      .may_change();
  table
      .add("threads",
           &options.threads,
           "processor threads, 0: all this process may use",
           between(0, 4096))
      .role(OptionRole::threads)
      .may_change_unless(is_on("deterministic"));
  table
      .add("module_timeout",
           &models::script_host().timeout,
           "seconds for a TorchScript module to be loaded and to come back from its first passes",
           positive(1e6))
      .may_change();
}

void add_device_options(OptionTable& table, RunOptions& options) {
  table
      .add("device",
           &options.device,
           "cpu, cuda, cuda:N, or auto: CUDA where there is a device, else the processor")
      .essential();
  table
      .add_choice(
          "data_on_device",
          &options.data_on_device,
          "keep decoded images of one size on the device and augment them there, to the same bits; "
          "auto: on CUDA, sets of up to 2 GB",
          {{"auto", DataOnDevice::automatic}, {"yes", DataOnDevice::yes}, {"no", DataOnDevice::no}})
      .may_change();
  table
      .add("cuda_graphs",
           &options.cuda_graphs,
           "on CUDA with one rank: record passes and the optimiser's step and replay them, so that "
           "small networks do not wait for launches")
      .may_change();
  table
      .add("tf32",
           &options.tf32,
           "on CUDA: products and convolutions in float32 round what they multiply to 10 bits")
      .needs_in_files(!is("device", {"cpu"}));
  table
      .add("cudnn_autotune",
           &options.cudnn_autotune,
           "on CUDA: time cuDNN's algorithms for each shape and take the fastest; bits may then "
           "differ from run to run")
      .needs_in_files(!is("device", {"cpu"}));
  table.add(
      "deterministic",
      &options.deterministic,
      "refuse operators whose bits differ from run to run; needs threads >= 1, which a resume "
      "keeps");
}

void add_prefetch_options(OptionTable& table, RunOptions& options) {
  table.add("prefetch", &options.prefetch, "batches prepared ahead of the step", between(1, 64))
      .alias("prefetch_buffer_size")
      .may_change()
      .of_one_rank();
  table
      .add("prefetch_memory",
           &options.prefetch_memory,
           "GB that these may take on each rank; fewer are prepared where they would take more",
           between(0, 1e6))
      .may_change();
  table
      .add("num_preprocessing_threads",
           &options.num_preprocessing_threads,
           "threads that read, decode and augment, 0: this rank's share of the cores",
           between(0, 1024))
      .may_change();
  table
      .add("num_parallel_batches",
           &options.num_parallel_batches,
           "batches in work at once, 0: prefetch",
           between(0, 64))
      .may_change();
}

}  // namespace

void add_compute_options(OptionTable& table, RunOptions& options) {
  table.group("Run");
  add_batch_options(table, options);
  add_device_options(table, options);
  add_prefetch_options(table, options);
}

void add_run_options(OptionTable& table, RunOptions& options, std::int64_t least_epochs) {
  table.group("Run");
  table
      .add("output",
           &options.output,
           "run folder; started again in the same folder, the run resumes")
      .role(OptionRole::output)
      .may_change()
      .essential();
  table.add("epochs", &options.epochs, "passes over the training set", at_least(least_epochs))
      .may_change()
      .essential();
  add_compute_options(table, options);
  table
      .add("global_batch_size",
           &options.global_batch_size,
           "samples per step over all ranks (default: batch_size x ranks, with which it must "
           "agree)",
           between(1, largest_batch))
      .way_on(" (batch_size x ranks unless given); choose another --output");
  table
      .add("seed",
           &options.seed,
           "of initial weights, sample order, augmentation and split",
           at_least(0))
      .essential();
  table
      .add("tensorboard",
           &options.events.tensorboard,
           "also write curve.csv as TensorBoard events, <output>/events.out.tfevents.*")
      .may_change();
  table.add("quiet", &options.quiet, "print errors only").role(OptionRole::quiet).may_change();
}

void add_step_event_options(OptionTable& table, EventOptions& options) {
  table.group("Run");
  table
      .add("tensorboard_steps",
           &options.tensorboard_steps,
           "with tensorboard: every Nth step of steps.csv, too, in <output>/steps/; 0: none",
           at_least(0))
      .may_change()
      .needs_in_files(is_on("tensorboard"));
}
}  // namespace dimred::training
