#pragma once

#include <string>
#include <vector>

namespace dimred::commands {

/// `dimred data TOOL ...`: data sets from one form to another. Returns the exit code.
int data_command(const std::vector<std::string>& arguments);

// The tools, each with its own --help.
int data_convert(const std::vector<std::string>& arguments);
int data_shuffle_split(const std::vector<std::string>& arguments);
int data_pack(const std::vector<std::string>& arguments);
int data_preview(const std::vector<std::string>& arguments);
int data_index(const std::vector<std::string>& arguments);
int data_inspect(const std::vector<std::string>& arguments);

}  // namespace dimred::commands
