#include "run/options.h"

#include "data/open.h"
#include "models/script.h"

namespace dimred::run {

namespace {

/// Place of the samples, and each rank's choice of them.
void add_source_options(OptionTable& table, engine::DataOptions& options) {
  auto& dataset = options.dataset;
  table
      .add("data",
           &dataset.path,
           "training data: folder, list of files or pattern (default: Debian's "
           "dataset-fashion-mnist)")
      .role(OptionRole::data)
      .essential()
      .locate_after_adoption();
  data::add_kind_option(
      table,
      dataset.kind,
      "kind of data set; auto: detected from the files; mock: synthetic images without files");
  table.add("test_data", &dataset.test_path, "test set (default: found beside the training set)");
  data::add_cache_options(table, dataset);
  table.add("labels_offset",
            &dataset.labels_offset,
            "number subtracted from stored labels of TFRecord and Base64",
            between(-1'000'000, 1'000'000));
  table.add("shuffle_buffer_size",
            &options.shuffle_buffer_size,
            "shuffle the files, then the samples within windows of N; 0: shuffle all samples",
            at_least(0));
  table.add_choice("shard",
                   &options.shard,
                   "distribute each batch's samples over the ranks, or distribute whole files",
                   {{"samples", engine::Sharding::samples}, {"files", engine::Sharding::files}});
  table.add("num_classes",
            &dataset.num_classes,
            "number of outputs of the network; 0: the number of classes in the data",
            between(0, 1'000'000));
  table.add("num_samples",
            &dataset.num_samples,
            "mock data: number of training samples (0: 50,000); other data: required size of the "
            "training set (0: any size)",
            at_least(0));
  table.add("mock_shape",
            &dataset.mock_shape,
            "channels,height,width of mock images",
            between(1, 1 << 15));
}

/// Adds the options of caching in memory and of held-out samples.
void add_split_options(OptionTable& table, engine::DataOptions& options) {
  table
      .add("datasets_use_caching",
           &options.datasets_use_caching,
           "decode images once and keep them in memory; needs images of one size")
      .may_change();
  table
      .add("cache_memory",
           &options.cache_memory,
           "memory limit in GB for the decoded images of a data set on each rank",
           between(0, 1e6))
      .may_change();
  table.add("validation_fraction",
            &options.validation_fraction,
            "share of the training set to hold out for validation",
            less_than(1));
  table
      .add("split_seed",
           &options.split_seed,
           "seed for the choice of held-out samples (default: the value of seed)",
           at_least(0))
      .follows({"seed"},
               [](const auto& rows) {
                 const auto* seed = rows.row("seed");
                 return seed == nullptr ? std::string() : seed->value();
               })
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

void add_data_options(OptionTable& table, engine::DataOptions& options) {
  table.group("Data", {.persists = true});
  add_source_options(table, options);
  add_split_options(table, options);
  std::vector<std::pair<std::string, std::optional<data::Recipe>>> recipes{{"auto", std::nullopt}};
  for (const auto& [name, recipe] : data::recipe_names()) recipes.emplace_back(name, recipe);
  table.add_choice(
      "preprocessing_name",
      &options.preprocessing_name,
      "preprocessing of images; none: only --pad, --flip and normalisation; auto: the "
      "built-in network's preprocessing if images differ in size and image_size is 0, else none",
      recipes);
  table.add("image_size",
            &options.image_size,
            "height and width of the network's input; 0: the preprocessing's own size (default: "
            "the network's own size if the preprocessing crops, else 0)",
            between(0, 4096));
  table.add("colour_jitter",
            &options.colour_jitter,
            "multiply brightness, contrast and saturation by random factors from 1 - x to 1 + x",
            between(0, 10));
  table.add_choice(
      "on_bad_sample",
      &options.dataset.skip_bad,
      "fail: end at a sample that cannot be decoded; skip: training takes the next sample instead, "
      "and evaluation leaves the sample out",
      {{"fail", false}, {"skip", true}});
  table.add("pad", &options.pad, "pad by N pixels and crop at random; 0: off", between(0, 16));
  table.add("flip", &options.flip, "flip images horizontally at random");
}

namespace {

void add_initialization_options(OptionTable& table, engine::ModelOptions& options) {
  table.add("batch_norm_eps",
            &options.batch_norm.eps,
            "epsilon that BatchNorm adds to the variance (default: the network's)",
            positive(1));
  table.add("batch_norm_momentum",
            &options.batch_norm.momentum,
            "weight of a batch in BatchNorm's running statistics (default: the network's)",
            positive(1));
  table.add_choice(
      "initialization",
      &options.initialization,
      "draw the initial weights as the network's authors do, or as MindSpore's ResNet recipe does",
      {{"network", models::Initialization::network},
       {"mindspore", models::Initialization::mindspore}});
}

}  // namespace

void add_model_options(OptionTable& table, engine::ModelOptions& options) {
  table.group("Model", {.persists = true});
  table
      .add("model",
           &options.model,
           "name of a network (dimred inspect --model --help lists the names), or a TorchScript "
           "file (*.pt), whose code is run")
      .may_name_a_file()
      .essential();
  table
      .add("model_digest",
           &options.model_digest,
           "XXH3-128 digest that the TorchScript file must have; a run records this digest")
      .follows({"model"});
  table.add_choice("precision",
                   &options.precision,
                   "number type of the forward and backward pass; weights stay float32; auto: "
                   "bfloat16 if the device computes in bfloat16",
                   {{"float32", engine::PrecisionChoice::float32},
                    {"bfloat16", engine::PrecisionChoice::bfloat16},
                    {"float16", engine::PrecisionChoice::float16},
                    {"auto", engine::PrecisionChoice::automatic}});
  const auto reduced = !is("precision", {"float32"});
  table
      .add("amp_allow",
           &options.amp_allow,
           "further ATen operators to run in --precision's type, for example avg_pool2d,batch_norm")
      .alias("custom_white_list")
      .needs(reduced);
  table.add("amp_deny", &options.amp_deny, "ATen operators to keep in float32")
      .alias("custom_black_list")
      .needs(reduced);
  table.add_choice("memory_format",
                   &options.memory_format,
                   "layout of images and convolution weights in memory",
                   {{"contiguous", layout::MemoryFormat::contiguous},
                    {"channels_last", layout::MemoryFormat::channels_last}});
  table.add_choice(
      "batchnorm_statistics",
      &options.batchnorm_statistics,
      "synchronized: BatchNorm uses the global batch; averaged, rank0: each rank's own batch, and "
      "running statistics averaged over ranks, or rank 0's",
      {{"averaged", engine::BatchNormPolicy::averaged},
       {"rank0", engine::BatchNormPolicy::rank0},
       {"synchronized", engine::BatchNormPolicy::synchronized}});
  add_initialization_options(table, options);
  table.add("trainable_include_patterns",
            &options.trainable_include_patterns,
            "train only parameters whose names match these comma-separated regular expressions; "
            "logits: the last layer (default: all)");
  table.add("trainable_exclude_patterns",
            &options.trainable_exclude_patterns,
            "freeze parameters whose names match these comma-separated regular expressions, even "
            "if trainable_include_patterns matches, too");
}

void add_loss_options(OptionTable& table, CommonOptions& options) {
  auto& loss = options.loss;
  table.group("Loss", {.persists = true});
  table.add("label_smoothing",
            &loss.label_smoothing,
            "label smoothing s of the training targets; validation and test losses have none",
            less_than(1));
  table
      .add_choice("smoothing_form",
                  &loss.smoothing_form,
                  "target of each wrong class, for C classes: s/C (pytorch) or s/(C-1) (mindspore)",
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
           "split a rank's batch into N passes, to save memory",
           at_least(1))
      .may_change();
  table
      .add("threads",
           &options.threads,
           "number of CPU threads; 0: all threads that this process may use",
           between(0, 4096))
      .role(OptionRole::threads)
      .may_change_unless(is_on("deterministic"));
  table
      .add("module_timeout",
           &models::script_host().timeout,
           "time limit in seconds for a TorchScript module to load and to finish its first passes",
           positive(1e6))
      .may_change();
}

void add_device_options(OptionTable& table, RunOptions& options) {
  table.add("device", &options.device, "cpu, cuda, cuda:N, or auto: CUDA if there is a device")
      .essential();
  table
      .add_choice(
          "data_on_device",
          &options.data_on_device,
          "keep decoded images on the device and augment there; auto: yes on CUDA if the images "
          "take at most 2 GB, else no",
          {{"auto", engine::DataOnDevice::automatic},
           {"yes", engine::DataOnDevice::yes},
           {"no", engine::DataOnDevice::no}})
      .may_change();
  table
      .add("cuda_graphs",
           &options.cuda_graphs,
           "run training steps as a recorded CUDA graph; needs one rank")
      .may_change();
  table
      .add("tf32",
           &options.tf32,
           "use TF32 on CUDA: matrix products and convolutions of float32 round inputs to "
           "mantissas of 10 bits")
      .needs_in_files(!is("device", {"cpu"}));
  table
      .add("cudnn_autotune",
           &options.cudnn_autotune,
           "let cuDNN search for the fastest algorithm for each shape; results may differ slightly "
           "from run to run")
      .needs_in_files(!is("device", {"cpu"}));
  table.add("deterministic",
            &options.deterministic,
            "refuse operators whose results differ in any bit from run to run; needs threads >= 1");
}

void add_prefetch_options(OptionTable& table, RunOptions& options) {
  table
      .add("prefetch",
           &options.prefetching.prefetch,
           "number of batches to prepare ahead of the step",
           between(1, 64))
      .alias("prefetch_buffer_size")
      .may_change()
      .of_one_rank();
  table
      .add("prefetch_memory",
           &options.prefetching.prefetch_memory,
           "memory limit in GB for the prepared batches of each rank",
           between(0, 1e6))
      .may_change();
  table
      .add("num_preprocessing_threads",
           &options.prefetching.num_preprocessing_threads,
           "threads that read, decode and augment; 0: this rank's share of the cores",
           between(0, 1024))
      .may_change();
  table
      .add("num_parallel_batches",
           &options.prefetching.num_parallel_batches,
           "number of batches prepared in parallel; 0: the value of prefetch",
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
           "run folder; a second start in the same folder resumes the run")
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
           "samples per step over all ranks (default: batch_size x ranks)",
           between(1, largest_batch))
      .follows({table.at(&options.batch_size).name})
      .way_on(" (batch_size x ranks unless given); choose another --output");
  table.add("seed",
            &options.seed,
            "seed of initial weights, sample order, augmentation and split",
            at_least(0));
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
           "also write every Nth step of steps.csv as events in <output>/steps/; 0: none",
           at_least(0))
      .may_change()
      .needs_in_files(is_on("tensorboard"));
}
}  // namespace dimred::run
