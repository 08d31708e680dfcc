#include "commands/model_command.h"

#include "commands/run.h"
#include "commands/text_table.h"
#include "models/network.h"
#include "models/script.h"
#include "options/options.h"
#include "support/console.h"
#include "support/errors.h"
#include "support/formatted.h"
#include "support/text.h"

namespace dimred::commands {
namespace {

struct NetworkOptions {
  std::string model;
  std::int64_t channels = 0, image_size = 0;  // 0: the network's own
  std::int64_t classes = 1000;
};

}  // namespace

std::string model_table(const models::NetworkSummary& summary) {
  std::vector<std::vector<std::string>> rows = {
      {"layer", "kind", "weight", "output", "parameters", "multiply-adds"}};
  for (const auto& layer : summary.layers) {
    rows.push_back({layer.name,
                    layer.kind,
                    shape_text(layer.weight),
                    layer.output.empty() ? "-" : shape_text(layer.output),
                    count_text(layer.parameters),
                    layer.multiply_adds == 0 ? "" : count_text(layer.multiply_adds)});
  }
  return aligned(rows, /*left=*/4);
}

int model_command(const std::vector<std::string>& arguments) {
  NetworkOptions options;
  OptionTable table("dimred inspect",
                    "list a network's layers, shapes, parameters and multiply-adds");
  table.group("What");
  table
      .add("model",
           &options.model,
           "network by name, or a TorchScript file (*.pt), whose code is run")
      .may_name_a_file();
  table.add("module_timeout",
            &models::script_host().timeout,
            "time limit in seconds for a TorchScript module to load and to finish its first passes",
            positive(1e6));
  table.add("channels",
            &options.channels,
            "image channels; 0 chooses 1 channel for 28-pixel images, else 3 channels",
            at_least(0));
  table.add("image_size",
            &options.image_size,
            "height and width of the images; 0: the network's own",
            at_least(0));
  table.add("classes",
            &options.classes,
            "number of classes; must match a TorchScript module's outputs",
            at_least(2));
  const auto networks =
      wrapped(formatted("\nNetworks: {}\n", name_list(models::network_names())), /*width=*/100);
  if (printed_help(table, arguments, networks)) return exit_success;
  const auto info = models::network_info(options.model);
  const bool script = models::is_script(options.model);
  require(!script || options.image_size > 0,
          "[inspect] needs --image_size for a TorchScript module, because the file does not say "
          "the size");
  if (options.image_size == 0) options.image_size = info.image_size;
  if (options.channels == 0) options.channels = options.image_size == 28 ? 1 : 3;
  const models::InputShape input{options.channels, options.image_size, options.image_size};
  const bool any_classes = script && !table.was_set(&options.classes);
  const auto network = any_classes ? models::load_script(options.model, input, /*classes=*/0)
                                   : models::make_network(options.model, input, options.classes);
  const auto summary = models::summarise(*network, input);
  print(model_table(summary) + "\n" +
        text_rows({{"network", options.model},
                   {"image", shape_text({input.channels, input.height, input.width})},
                   {"parameters M", count_text(summary.parameters)},
                   {"multiply-adds",
                    count_text(summary.multiply_adds) + " an image, forward (2 FLOPs each)"},
                   {"snapshot", bytes_text(4 * (summary.parameters + summary.buffers))},
                   {"32 x M matrix", bytes_text(4L * 32 * summary.parameters)}}) +
        (script ? "" : text_row("last layer", info.logits)));
  return exit_success;
}

}  // namespace dimred::commands
