#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"

namespace dimred::data {

/// Many short texts in one: about 10 bytes each more than their letters.
class TextList {
 public:
  void add(std::string_view text) {
    letters_ += text;
    ends_.push_back(letters_.size());
  }
  std::size_t size() const { return ends_.size(); }
  std::string_view at(std::size_t i) const {
    const auto begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(letters_).substr(begin, ends_[i] - begin);
  }

 private:
  std::string letters_;
  std::vector<std::size_t> ends_;
};

/// Labelled image files, found by a folder, a list or a pattern.
struct ImageFileList {
  std::string kind;  // "folder", "list": begins the description
  std::filesystem::path root;
  std::filesystem::path file;  // of a list; empty: the images were found in `root`
  TextList paths;              // below root, or absolute
  std::vector<std::int32_t> labels;
  std::vector<std::string> class_names;
  std::int64_t ignored = 0;           // other files beside them
  std::vector<std::string> left_out;  // folders beside the classes, of other programs
  std::vector<std::string> remarks;   // on a list's lines
};

/// The files as a data set. A file is opened when it is read, JPEG or PNG by its first bytes
/// whatever its name says (notes() counts the other names).
std::unique_ptr<Dataset> image_files(ImageFileList list);

/// Images as torchvision's ImageFolder has them: folder/CLASS/**/*.{jpg,jpeg,png} in any case, not
/// hidden, links followed. Classes by their names' bytes (so label_10 comes before label_2), or in
/// the order of non-empty `class_names`, which the folders must match. Files by path. Throws
/// std::invalid_argument for no folder, no class, an empty class, classes whose names differ in
/// case alone, or others than class_names; std::runtime_error for names outside UTF-8 and an
/// unreadable folder; each names the path.
std::unique_ptr<Dataset> open_image_folder(const std::filesystem::path& folder,
                                           const std::vector<std::string>& class_names = {});

/// A text file of lines "path label": the path, which may hold blanks, below the file's folder or
/// its `images` (where the first file that exists is). Behind the path and a tab, the label may
/// hold blanks, too. Labels are all whole numbers >= 0 in any spelling of tables (2, 2.0, +2, "2",
/// 2e0, in any quotes or brackets) or all words. The names and the order of the classes are those
/// of labels.txt or classes.txt beside the list, else the numbers, or the words by their bytes.
/// Words that are numbers in another spelling (np.int64(2), 0b10; 2L or #2 where most labels have
/// this form) are refused. `class_names` are a training set's, to which a test list's labels
/// belong: words are among them, numbers are their places, and a labels.txt beside the list must
/// say the same; `numbers` is then how the training set's labels are written, where it is a list.
/// Throws std::invalid_argument for no file or other names, std::runtime_error("[list] file:line:
/// rule") for a bad line.
std::unique_ptr<Dataset> open_image_list(const std::filesystem::path& file,
                                         const std::vector<std::string>& class_names = {},
                                         std::optional<bool> numbers = {});

/// The lines of such a file, without a root; nothing is read from disk but `names_files`, which
/// lie beside the list (labels.txt and classes.txt). `name` is the list's in messages.
ImageFileList parse_image_list(std::string_view text,
                               const std::string& name,
                               const std::vector<std::filesystem::path>& names_files = {},
                               const std::vector<std::string>& class_names = {},
                               std::optional<bool> numbers = {});

/// All files that a pattern with * ? [] matches; the class is the name of a file's folder. Throws
/// like open_image_folder, and std::invalid_argument when nothing matches.
std::unique_ptr<Dataset> open_image_pattern(const std::string& pattern,
                                            const std::vector<std::string>& class_names = {});

/// Whether a file or folder is no part of the data: hidden, or put beside the data by an archive,
/// a file system, a network disk or a program (__MACOSX, lost+found, NetApp's #snapshot, Synology's
/// @eaDir with thumbnails), in either case.
bool is_left_out(std::string_view name);

/// Whether a file's name ends as an image's.
bool is_image_name(std::string_view name);

}  // namespace dimred::data
