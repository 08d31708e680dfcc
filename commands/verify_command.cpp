#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "checkpoints/artifact.h"
#include "commands/run.h"
#include "commands/saved_weights.h"
#include "commands/trainer_commands.h"
#include "launch/rank_info.h"
#include "serving/embeddings.h"
#include "serving/export.h"
#include "serving/pairs.h"
#include "serving/verification.h"
#include "support/errors.h"
#include "support/open_file.h"
#include "support/result_file.h"
#include "support/url.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

struct VerifyOptions : SavedOptions {
  fs::path pairs, output;
  bool with_flipped = true;
};

struct VerifyAnswer {
  serving::Verification verification;
  std::int64_t embedding_size = 0, same = 0, pairs = 0;
  double mean_length = 0;
};

constexpr auto roc_header = "threshold,true_positive_rate,false_positive_rate\n";

ResultPlace roc_place(const VerifyOptions& options) {
  return {.path = options.output / "roc.csv",
          .option = "--output",
          .mark = {.what = "ROC of dimred verify", .text = roc_header},
          .inputs = {options.pairs}};
}

ResultPlace answer_place(const VerifyOptions& options) {
  return {.path = options.output / "verification.json",
          .option = "--output",
          .mark = {.what = "answer of dimred verify", .text = "{\n  \"weights\": "},
          .inputs = {options.pairs}};
}

/// Checks before the work; a missing folder holds nothing to replace.
void check_answer_place(const VerifyOptions& options) {
  require_outside_runs(options.output, "--output");
  for (const auto& place : {roc_place(options), answer_place(options)})
    if (fs::exists(place.path)) require_result_place(place);
}

std::string roc_text(const serving::Verification& verification) {
  std::string text = roc_header;
  for (const auto& point : verification.roc)
    text += formatted("{},{},{}\n",
                      number_text(point.threshold),
                      number_text(point.true_positive_rate),
                      number_text(point.false_positive_rate));
  return text;
}

nlohmann::ordered_json to_json(const VerifyOptions& options, const VerifyAnswer& answer) {
  const auto& verification = answer.verification;
  nlohmann::ordered_json folds;
  for (const auto& fold : verification.folds)
    folds.push_back({{"threshold", fold.threshold},
                     {"accuracy", fold.accuracy},
                     {"tar_threshold", fold.tar_threshold},
                     {"tar", fold.tar},
                     {"far", fold.far}});
  return {{"weights", options.weights.string()},
          {"pairs_file", options.pairs.string()},
          {"pairs", answer.pairs},
          {"same", answer.same},
          {"embedding_size", answer.embedding_size},
          {"with_flipped", options.with_flipped},
          {"accuracy", verification.accuracy},
          {"accuracy_deviation", verification.accuracy_deviation},
          {"xnorm", answer.mean_length},
          {"far_target", serving::far_target},
          {"tar", verification.tar},
          {"tar_deviation", verification.tar_deviation},
          {"far", verification.far},
          {"folds", std::move(folds)}};
}

std::string summary(const VerifyOptions& options, const VerifyAnswer& answer) {
  const auto& verification = answer.verification;
  std::ostringstream out;
  out << answer.pairs << " pairs (" << answer.same << " the same), embeddings of "
      << answer.embedding_size << " values, " << (options.with_flipped ? "with" : "without")
      << " the embedding of the flipped image\n"
      << std::fixed << std::setprecision(5) << "accuracy  " << verification.accuracy << " +- "
      << verification.accuracy_deviation << " over " << serving::verification_folds << " folds\n"
      << "TAR       " << verification.tar << " +- " << verification.tar_deviation << " at FAR "
      << verification.far << " (target " << std::setprecision(3) << serving::far_target << ")\n"
      << "XNorm     " << answer.mean_length << '\n';
  return out.str();
}

int verify_pairs(const VerifyOptions& options,
                 engine::Setup& setup,
                 const serving::PairList& list) {
  const auto embeddings = [&] {
    const serving::EmbeddingScope off(setup);
    return serving::embeddings_of(setup, list.images, options.with_flipped);
  }();
  const auto& [size, plain, flipped] = embeddings;
  VerifyAnswer answer{.verification = serving::verify(
                          serving::pair_distances(plain, flipped, size, list.pairs), list.pairs),
                      .embedding_size = size,
                      .pairs = std::ssize(list.pairs),
                      .mean_length = serving::mean_length(plain, flipped, size, list.pairs)};
  for (const auto& pair : list.pairs) answer.same += pair.same ? 1 : 0;
  create_folders(options.output);
  write_result(roc_place(options), roc_text(answer.verification));
  const auto text =
      to_json(options, answer).dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  write_result(answer_place(options), text + "\n");
  print(summary(options, answer) + "-> " + (options.output / "verification.json").string() +
        ", roc.csv\n");
  return exit_success;
}

int verify_export(const VerifyOptions& options, const serving::PairList& list) {
  require(!options.output.empty(), "[verify] needs --output FOLDER for an export");
  check_answer_place(options);
  const auto signature = serving::read_signature(options.weights);
  auto setup = serving::open_export(options.weights, signature, options.common.run);
  return verify_pairs(options, setup, list);
}

/// In float32, unless another precision is asked for: distances of equal faces are small.
int verify_run(VerifyOptions& options, OptionTable& table, const serving::PairList& list) {
  const auto& precision = options.common.model.precision;
  if (!table.was_set(&precision)) table.set(&precision, "float32");
  adopt_run_of(table, options);
  if (options.output.empty()) options.output = checkpoints::run_of(options.weights);
  require(!options.output.empty(),
          "[verify] needs --output FOLDER for weights outside of a run folder");
  check_answer_place(options);
  options.common.model.any_outputs = true;
  run::resolve(options.common, 1, table);
  return with_saved_network(table, options, [&](engine::Setup& setup, const auto&) {
    return verify_pairs(options, setup, list);
  });
}

}  // namespace

int verify_command(const std::vector<std::string>& arguments) {
  VerifyOptions options;
  OptionTable table("dimred verify",
                    "decide whether pairs of images show the same subject, by the distance of "
                    "their embeddings");
  table.group("Verify", {.essential = true});
  add_saved_options(table, options);
  table.add("pairs",
            &options.pairs,
            "file of lines \"path_a path_b 1\" (0 for different subjects), or FILE.bin, a pickle "
            "of (images, booleans)");
  table
      .add("output",
           &options.output,
           "folder of verification.json and roc.csv (default: the weights' run folder)")
      .role(OptionRole::output);
  table.add("with_flipped",
            &options.with_flipped,
            "add the embedding of the mirrored image to the embedding of the image");
  table.of(&options.weights).url_rule([](const std::string& url, const OptionTable& all) {
    // Downloaded weights are shared and not sent back.
    require(!all.row(OptionRole::output)->text.empty(),
            "[stores] needs --output FOLDER or URL, because the weights are at {}",
            without_credentials(url));
  });
  table.of(&options.pairs).url_rule([](const std::string& url, const OptionTable&) {
    // A list's images are not downloaded with it.
    require(split_url(url).path.ends_with(".bin"),
            "[stores] a URL of pairs needs to end in .bin, because only a pickle holds the images; "
            "received {}",
            without_credentials(url));
  });
  add_network_options(table, options.common);
  if (printed_help(table, arguments)) return exit_success;
  require(!options.weights.empty() && !options.pairs.empty(),
          "[verify] needs a run or an export, then pairs: dimred verify (RUN|EXPORT) --pairs FILE");
  require(launch::discover().size == 1, "[verify] needs one rank, received several");
  require(fs::exists(options.pairs), "[verify] no such file: {}", options.pairs);
  const auto exported = serving::find_export(options.weights);
  const bool is_export = !exported.empty();
  if (is_export) options.weights = exported;
  if (is_export) refuse_run_options(table, options.weights);
  const auto list = serving::read_pairs(options.pairs);
  serving::require_folds(list.pairs);
  return is_export ? verify_export(options, list) : verify_run(options, table, list);
}

}  // namespace dimred::commands
