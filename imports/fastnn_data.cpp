#include <algorithm>

#include "imports/fastnn.h"
#include "support/option_values.h"
#include "support/options.h"

// The data set, its files and the images' preparation.
namespace dimred::imports::fastnn {
namespace {

void answer_dataset_name(Line& line, const Values& values) {
  const std::vector<std::string> names = {"mock", "cifar10", "mnist", "flowers", "imagenet"};
  if (std::ranges::find(names, line.value) == names.end()) {
    line.answer = Answer::refused;
    const auto near = nearest(line.value, names);
    line.text = "not a data set of FastNN's" + (near ? "; did you mean " + *near + "?" : "");
  } else if (line.value == "mock" && values.at("dataset_dir").empty()) {
    line.answer = Answer::mapped;
    line.settings = {{"dataset", "mock"}};
  } else {
    line.answer = Answer::no_effect;
    line.text = "the files of dataset_dir say what they are";
  }
}

/// FastNN's own factory: without a name, the network's family says how images are prepared.
void answer_preprocessing(Line& line, const Values& values) {
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
    if (!name.starts_with(begin)) continue;
    line.answer = Answer::mapped;
    line.settings = {{"preprocessing_name", ours}};
    return;
  }
  line.answer = Answer::refused;
  line.text = "FastNN prepares no images for " + printable(name);
  line.instead = "preprocessing_name";
}

/// A number that the file gives is checked against the data; the mock set needs one.
void answer_classes(Line& line, const Values& values) {
  const bool mock = values.at("dataset_name") == "mock" && values.at("dataset_dir").empty();
  (line.given || mock ? as("num_classes") : none("the data set says how many classes it has"))(
      line, values);
}

}  // namespace

std::vector<Key> data_keys() {
  const auto fixed = none("samples are counted in the files");
  return {
      {"dataset_name", Type::text, "mock", answer_dataset_name},
      {"dataset_dir",
       Type::text,
       "",
       local_folder("data", "no store of ours (hdfs, s3, gs, http); copy the files to a folder")},
      {"file_pattern", Type::text, "", unless_empty("files are found in the folder", "data")},
      {"reader", Type::text, "", unless_empty("a TensorFlow class; files say what they are")},
      {"num_sample_per_epoch", Type::integer, "1000000", fixed},
      {"train_files",
       Type::text,
       "",
       none("files are found in the folder; FastNN, too, ignores "
            "it for the data sets it knows")},
      {"eval_files",
       Type::text,
       "",
       none("never read by FastNN, which has no evaluation; ours "
            "evaluates on the folder's test part")},
      {"num_preprocessing_threads",
       Type::integer,
       "16",
       if_given("num_preprocessing_threads", "as many as this rank's cores")},
      {"preprocessing_name", Type::text, "", answer_preprocessing},
      {"shuffle_buffer_size",
       Type::integer,
       "1024",
       if_given("shuffle_buffer_size", "every epoch shuffles all samples")},
      {"prefetch_buffer_size", Type::integer, "32", as("prefetch")},
      {"num_parallel_batches",
       Type::integer,
       "8",
       if_given("num_parallel_batches", "as many as keep the threads busy")},
      {"datasets_use_caching",
       Type::boolean,
       "false",
       if_given("datasets_use_caching", "images of one size stay in memory")},
      {"num_classes", Type::integer, "100", answer_classes},
      {"labels_offset", Type::integer, "0", if_given("labels_offset", "labels as they are")},
      {"tables", Type::text, "", unless_empty("a MaxCompute table; needs a folder", "data")},
      {"buckets", Type::text, "", none("of the object store; give folders")}};
}

}  // namespace dimred::imports::fastnn
