#include <torch/utils.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoints/run_config.h"
#include "checkpoints/snapshot.h"
#include "commands/ranks.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "commands/saved_weights.h"
#include "commands/text_table.h"
#include "commands/trainer_commands.h"
#include "pca/source.h"
#include "soup/soups.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/options_file.h"
#include "training/state.h"
#include "training/weights/frozen.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;
using soup::Kind;
using soup::Soup;

struct SoupOptions {
  SavedOptions saved;  // of the first member
  std::vector<std::string> members;
  std::string kinds = "best,mean,greedy,learned,learned_layers";
  soup::Options make;
  fs::path output;
  bool overwrite = false;
};

std::string name_of(Kind kind) {
  const auto names = soup::kind_names();
  return std::ranges::find(names, kind, &std::pair<std::string, Kind>::second)->first;
}

std::vector<Kind> kinds_of(const SoupOptions& options) {
  const auto known = soup::kind_names();
  std::vector<std::string> names;
  for (const auto& [name, kind] : known) names.push_back(name);
  std::vector<Kind> kinds;
  for (const auto& text : split_list(options.kinds)) {
    const auto found = std::ranges::find(names, text);
    require(found != names.end(),
            "[soup] kinds needs some of {}, received {}{}",
            name_list(names),
            text,
            suggestion(text, names));
    kinds.push_back(known[found - names.begin()].second);
  }
  require(!kinds.empty(), "[soup] kinds needs some of {}, received none", name_list(names));
  const bool stock = std::ranges::find(kinds, Kind::stock) != kinds.end();
  require(stock == !options.make.anchor.empty(),
          "[soup] kinds = stock and --anchor FILE, the weights before tuning, need each other");
  return kinds;
}

/// A run is its final.h5, or its newest snapshot; another folder, or a list, what it holds.
std::vector<fs::path> files_of(const fs::path& member) {
  require(fs::exists(member), "[soup] no such file or folder: {}", member);
  if (fs::exists(member / "final.h5")) return {member / "final.h5"};
  if (fs::exists(member / "snapshots")) return {pca::snapshot_files(member / "snapshots").back()};
  if (fs::is_directory(member) || member.extension() == ".txt") return pca::snapshot_files(member);
  return {member};
}

std::vector<fs::path> member_files(const SoupOptions& options) {
  std::vector<fs::path> files;
  for (const auto& member : options.members) {
    const auto found = files_of(fs::absolute(member).lexically_normal());
    files.insert(files.end(), found.begin(), found.end());
  }
  require(files.size() >= 2,
          "[soup] needs two members or more (runs, weight files or folders of them), received {}",
          files.size());
  return files;
}

/// The samples that choose must not have trained a member, as far as the members' runs say.
void require_same_split(const std::vector<fs::path>& members, const OptionTable& table) {
  for (const auto& member : members) {
    const auto run = checkpoints::open_run(member);
    if (run.config.empty()) continue;
    for (const auto& entry : read_toml(run.source, '\n' + run.config)) {
      require(entry.name != "train_on" || entry.text != "validation",
              "[soup] {} was trained with train_on = validation, on samples that choose here",
              member);
      if (entry.name != "validation_fraction" && entry.name != "split_seed") continue;
      const auto& here = table.row(entry.name)->show();
      require(entry.text == here,
              "[soup] {} was trained with {} = {}, so that it has seen samples that {} = {} holds "
              "out; train members with one --validation_fraction and one --split_seed",
              member,
              entry.name,
              entry.text,
              entry.name,
              here);
    }
  }
}

/// Nothing is chosen by the samples that are to judge it.
void require_other_test_set(const training::DataRecord& record) {
  require(!record.test || record.test->digest != record.train.digest,
          "[soup] needs other samples held out than in the test set, and both are of {}",
          record.train.description);
}

nlohmann::ordered_json coefficients_of(const Soup& soup) {
  nlohmann::ordered_json json;
  json["members"] = soup.members;
  auto& blocks = json["blocks"] = nlohmann::json::array();
  for (Eigen::Index b = 0; b < soup.coefficients.cols(); ++b) {
    const auto& columns = soup.blocks[static_cast<std::size_t>(b)];
    const Eigen::VectorXd c = soup.coefficients.col(b);
    blocks.push_back({{"columns", {columns.begin, columns.end}},
                      {"coefficients", std::vector<double>(c.begin(), c.end())}});
  }
  return json;
}

constexpr auto csv_header =
    "kind,members,coefficients,steps,forward_images,backward_images,seconds,validation_loss,"
    "validation_accuracy,test_loss,test_accuracy\n";

std::string csv_row(const Soup& soup) {
  const auto used = (soup.coefficients.array() != 0).rowwise().any().count();
  const auto test = soup.test ? formatted("{},{}", soup.test->loss, soup.test->accuracy) : ",";
  return formatted("{},{},{},{},{},{},{},{},{},{}\n",
                   name_of(soup.kind),
                   used,
                   soup.coefficients.size(),
                   soup.steps,
                   soup.forward_images,
                   soup.backward_images,
                   soup.seconds,
                   soup.validation.loss,
                   soup.validation.accuracy,
                   test);
}

std::string console_line(const Soup& soup) {
  const auto score = [](const training::Score& s) {
    return formatted(
        "loss {} accuracy {} %", decimal_text(s.loss, 4), decimal_text(100 * s.accuracy, 2));
  };
  auto kind = name_of(soup.kind);
  kind.resize(std::max<std::size_t>(kind.size(), 15), ' ');
  return formatted("{} validation {}{}  ({} s)",
                   kind,
                   score(soup.validation),
                   soup.test ? "  test " + score(*soup.test) : "  no test set",
                   decimal_text(soup.seconds, 1));
}

/// Everything that the command may write.
std::vector<fs::path> files_to_write(const SoupOptions& options) {
  std::vector files{options.output / "soups.csv", options.output / "coefficients.json"};
  for (const auto& [name, kind] : soup::kind_names())
    files.push_back(options.output / (name + ".h5"));
  return files;
}

int make(SoupOptions& options,
         const OptionTable& table,
         const std::vector<fs::path>& files,
         const distributed::Ranks& ranks) {
  auto& common = options.saved.common;
  common.model.precision = training::PrecisionChoice::float32;  // small gains of the loss count
  auto setup = training::make_setup(common, ranks);
  setup.persistent_options = checkpoints::persistent_options(table);
  require_other_test_set(setup.data.record);
  training::load_frozen(setup, files.front());
  auto console = console_of(ranks, common.run.quiet);
  console.line(formatted("{} members of {} weights, {} samples held out",
                         files.size(),
                         setup.model.flat.layout.global_size,
                         setup.data.validation ? setup.data.validation->size() : 0));
  options.make.progress = [&](std::int64_t step, double loss) {
    console.progress({.label = "descent", .done = step, .total = options.make.steps, .loss = loss});
    if (step == options.make.steps) console.clear();
  };
  // Also of kinds that are not made now: what lies there in the end belongs together.
  for (const auto& file : files_to_write(options)) fs::remove(file);
  std::string csv = csv_header;
  nlohmann::ordered_json coefficients;
  soup::make_soups(setup, files, kinds_of(options), options.make, [&](const Soup& soup) {
    const auto name = name_of(soup.kind);
    fs::create_directories(options.output);
    checkpoints::write_snapshot(options.output / (name + ".h5"),
                                training::start_snapshot(setup, {})());
    csv += csv_row(soup);
    coefficients[name] = coefficients_of(soup);
    console.line(console_line(soup));
  });
  write_file_atomically(options.output / "coefficients.json", coefficients.dump(1) + "\n");
  write_file_atomically(options.output / "soups.csv", csv);
  console.line(formatted("-> {}", options.output));
  return exit_success;
}

}  // namespace

int soup_command(const std::vector<std::string>& arguments) {
  SoupOptions options;
  auto& common = options.saved.common;
  OptionTable table(
      "dimred soup",
      "MEMBERS: runs, weight files, or folders and lists of them, of one network that "
      "was fine-tuned several times -> one set of weights.");
  table.group("Soup");
  table.rest([&](const std::string& member) { options.members.push_back(member); });
  table.add("kinds", &options.kinds, "best, mean, greedy, stock, learned, learned_layers");
  table.add("anchor", &options.make.anchor, "the weights before tuning, for stock");
  table.add("steps", &options.make.steps, "of descent on the held-out loss, at most", at_least(1));
  table.add("output", &options.output, "folder: KIND.h5, soups.csv, coefficients.json");
  table.add("overwrite", &options.overwrite, "replace existing outputs");
  table.add("quiet", &common.run.quiet, "print errors only");
  table.add("seed", &common.run.seed, "of BatchNorm's recalibration and dropout", at_least(0));
  add_network_options(table, common);
  if (printed_help(table, arguments)) return exit_success;
  require(!options.output.empty(), "[soup] needs --output FOLDER");
  for (const auto& file : files_to_write(options))
    require(options.overwrite || !fs::exists(file),
            "[soup] {} exists already; choose another --output or give --overwrite",
            file);
  kinds_of(options);
  const auto files = member_files(options);
  options.saved.weights = files.front();
  adopt_run_of(table, options.saved, "soup");
  const auto ranks = launch::discover().size;
  require(ranks == 1, "[soup] runs alone, received {} ranks", ranks);
  training::resolve(common, ranks, table);
  require(common.data.validation_fraction > 0,
          "[soup] chooses by samples that were held out: needs --validation_fraction, as the "
          "members were trained with");
  require_same_split(files, table);
  return with_ranks(
      table, common, [&](const auto& alone) { return make(options, table, files, alone); });
}

}  // namespace dimred::commands
