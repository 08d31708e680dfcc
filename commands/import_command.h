#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "imports/fastnn.h"
#include "imports/mindspore.h"
#include "options/options.h"

// Another system's file: on its own, or in the place of --config, `stage1 --fastnn FILE`, `stage2
// --boost FILE`.
namespace dimred::commands {

/// `dimred import FILE`: what each line of FastNN's hyper-parameters or MindSpore's boost
/// dictionary means here, or how to start the ranks of a rank table; with --output, as a
/// config.toml of ours. Returns the exit code, exit_caller when a line is refused.
int import_command(const std::vector<std::string>& arguments);

/// Takes `flag FILE` or `flag=FILE` out of the arguments; an empty path when it is not there. It is
/// no row of the table, because config.toml has what the file came to mean. Throws
/// std::invalid_argument without a file or when given twice.
std::filesystem::path take_file(std::vector<std::string>& arguments, const std::string& flag);

/// The part of a command's --help about such a flag.
std::string foreign_help(const std::string& flag, const std::string& what);

/// Sets what the file says and no flag has set. Returns remarks, a line each. Throws
/// std::invalid_argument for a refused line that no flag overrides, beside --config, and as an
/// option table does.
std::vector<std::string> adopt_import(OptionTable& table, const imports::Import& import);

}  // namespace dimred::commands
