#include <algorithm>
#include <set>
#include <system_error>

#include "data/class_names.h"
#include "data/format.h"
#include "data/idx.h"
#include "data/image_files.h"
#include "data/splits.h"
#include "data/unread_files.h"
#include "support/errors.h"
#include "support/list_files.h"
#include "support/text.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

/// fs::filesystem_error as our own, with the path in UTF-8.
template <class Scan>
void scanning(const fs::path& folder, const Scan& scan) {
  try {
    scan();
  } catch (const fs::filesystem_error& error) {
    const auto& path = error.path1().empty() ? folder : error.path1();
    fail_environment("[image_folder] cannot read {}: {}", path, error.code().message());
  }
}

struct FolderNames {
  std::vector<std::string> classes;
  std::vector<std::string> left_out;  // but for hidden ones
  std::int64_t files = 0;             // beside the folders
};

FolderNames folders_in(const fs::path& folder) {
  FolderNames names;
  scanning(folder, [&] {
    for (const auto& entry : fs::directory_iterator(folder)) {
      const auto name = entry.path().filename().string();
      if (!entry.is_directory()) ++names.files;
      if (name.starts_with('.') || !entry.is_directory()) continue;
      (is_left_out(name) ? names.left_out : names.classes).push_back(name);
    }
  });
  std::ranges::sort(names.left_out);
  return names;
}

/// A link to a folder above it would never end.
void refuse_loop(const fs::directory_entry& folder, const fs::path& root) {
  if (!folder.is_symlink()) return;
  const auto target = fs::canonical(folder.path());
  for (auto above = folder.path().parent_path();; above = above.parent_path()) {
    require_environment(
        fs::canonical(above) != target,
        "[image_folder] {}: the link leads to {}, a folder that contains the link; remove the link",
        folder.path(),
        target);
    if (above == root) return;
  }
}

/// Adds the paths, from place `skip` on, of the images in `folder` and below; `top` is the class's.
void find_images(const fs::path& folder,
                 const fs::path& top,
                 std::size_t skip,
                 std::vector<std::string>& found,
                 ImageFileList& list) {
  // Not by recursive_directory_iterator: it does not name the inner folder that it cannot read.
  scanning(folder, [&] {
    for (const auto& entry : fs::directory_iterator(folder)) {
      const auto name = entry.path().filename().string();
      const bool left_out = is_left_out(name);
      if (!left_out && entry.is_directory()) {
        refuse_loop(entry, top);
        find_images(entry.path(), top, skip, found, list);
      } else if (!left_out && is_image_name(name)) {
        found.push_back(entry.path().string().substr(skip));
      } else {
        ++list.ignored;
      }
    }
  });
}

/// Contents of a folder of class folders, as far as they tell classes from others.
struct ClassFolder {
  std::set<std::string> folders;
  bool has_images = false;
};

ClassFolder look_into(const fs::path& folder) {
  ClassFolder found;
  scanning(folder, [&] {
    for (const auto& entry : fs::directory_iterator(folder)) {
      const auto name = entry.path().filename().string();
      if (is_left_out(name)) continue;
      found.has_images = found.has_images || is_image_name(name);
      if (found.has_images) return;  // a class; the rest may be a million images
      if (entry.is_directory()) found.folders.insert(name);
    }
  });
  return found;
}

/// Returns where MNIST's files lie: in the folder, or in its raw/ as torchvision puts them. Returns
/// an empty path where they lie in neither.
fs::path place_of_idx(const fs::path& folder) {
  for (const auto& place : {folder, folder / "raw"})
    if (holds_idx(place)) return place;
  return {};
}

std::string remark_on_class(const fs::path& folder) {
  const auto place = place_of_idx(folder);
  if (place.empty()) return remark_on_files_in(folder);
  return formatted("; {} has files of MNIST; give this folder with --data", place);
}

/// Folders that all hold the same folders and no image (fold_1, fold_2), one alone that holds no
/// image (train in train), or folders whose names say both splits (seg_train, seg_test) may be
/// parts of a data set, not its classes.
void refuse_parts(const fs::path& root) {
  auto names = folders_in(root).classes;
  std::ranges::sort(names);
  std::vector<ClassFolder> inner;
  bool same = true, train = false, test = false;
  for (const auto& name : names) {
    inner.push_back(look_into(root / name));
    if (inner.back().has_images || inner.back().folders.empty()) return;
    if (!place_of_idx(root / name).empty()) return;  // said where the images are looked for
    same = same && inner.back().folders == inner.front().folders;
    const auto said = splits_named_in(name);
    train = train || said.train;
    test = test || said.test;
  }
  if (names.empty()) return;
  const bool alike = same && (names.size() == 1 || inner.front().folders.size() > 1);
  if (!alike && !(train && test)) return;
  const auto& parts = inner.front().folders;
  refuse(
      "[image_folder] {}: dimred cannot tell whether the folders {} are classes, or parts of a "
      "data set with the classes {}; if the folders are parts, give --data {} (and --test_data); "
      "if the folders are classes, give --dataset folder",
      root,
      first_names(names, 3),
      first_names({parts.begin(), parts.end()}, 3),
      root / names.front());
}

/// The class's images, sorted, as paths below the root.
std::vector<std::string> images_of(const fs::path& root,
                                   const std::string& name,
                                   ImageFileList& list) {
  std::vector<std::string> found;
  find_images(root / name, root / name, (root / "").string().size(), found, list);
  std::ranges::sort(found);
  require(!found.empty(),
          "[image_folder] needs at least one .jpg, .jpeg or .png file in each class, received none "
          "in {}{}",
          root / name,
          found.empty() ? remark_on_class(root / name) : "");
  return found;
}

/// Returns whether an image is in a folder, by its name; false where the folder cannot be read.
bool has_an_image(const fs::path& folder) {
  std::error_code error;
  return std::ranges::any_of(fs::directory_iterator(folder, error), [](const auto& entry) {
    return is_image_name(entry.path().filename().string());
  });
}

/// Returns whether class folders with images lie there: one at least in a split's folder, or two
/// elsewhere, since one alone may hold pictures of the data.
bool holds_class_folders(const fs::path& path) {
  if (!fs::is_directory(path)) return false;
  const auto count = [](const fs::path& folder) {
    return std::ranges::count_if(folders_in(folder).classes, [&](const std::string& name) {
      return has_an_image(folder / name);
    });
  };
  const auto is_split = [&](bool train) {
    const auto folder = split_folder(path, train);
    return !folder.empty() && count(folder) > 0;
  };
  return is_split(true) || is_split(false) || count(path) > 1;
}

}  // namespace

std::unique_ptr<Dataset> open_image_folder(const fs::path& folder,
                                           const std::vector<std::string>& class_names) {
  require(fs::is_directory(folder),
          "[image_folder] needs a folder with one subfolder for each class, received {}",
          folder);
  const auto [names, left_out, files] = folders_in(folder);
  require(!names.empty(),
          "[image_folder] needs a subfolder for each class, received none in {}{}{}",
          folder,
          look_into(folder).has_images
              ? ", but images without a class; move the images into class folders, or give a "
                "pattern ('FOLDER/*/*.png') or a list (lines \"path label\")"
              : "",
          remark_on_files_in(folder));
  ImageFileList list{.kind = "folder", .root = folder, .ignored = files, .left_out = left_out};
  list.class_names = ordered_classes(names, class_names, path_text(folder));
  std::int32_t label = 0;
  for (const auto& name : list.class_names) {
    for (const auto& path : images_of(folder, name, list)) {
      list.paths.add(path);
      list.labels.push_back(label);
    }
    ++label;
  }
  return image_files(std::move(list));
}

std::unique_ptr<Dataset> open_image_pattern(const std::string& pattern,
                                            const std::vector<std::string>& class_names) {
  const auto class_of = [](const fs::path& path) { return path.parent_path().filename().string(); };
  auto paths = paths_matching(fs::absolute(pattern), "image_folder");
  ImageFileList list{.kind = "pattern", .root = pattern};
  const auto is_left_out_here = [&](const fs::path& part) {
    return is_left_out(part.string()) && pattern.find(part.string()) == std::string::npos;
  };
  list.ignored = std::erase_if(paths, [&](const auto& path) {
    return !is_image_name(path.filename().string()) || std::ranges::any_of(path, is_left_out_here);
  });
  std::set<std::string> names;
  for (const auto& path : paths) names.insert(class_of(path));
  require(!paths.empty(),
          "[image_folder] {}: no image matches this pattern; give another pattern",
          pattern);
  list.class_names = ordered_classes({names.begin(), names.end()}, class_names, pattern);
  const auto labels = labels_of(list.class_names);
  for (const auto& path : paths) {
    list.paths.add(path.string());
    list.labels.push_back(labels.at(class_of(path)));
  }
  return image_files(std::move(list));
}

namespace formats {
DatasetFormat folder() {
  return {.holds = [](const fs::path& path) { return is_pattern(path) || fs::is_directory(path); },
          .open = [](const DatasetRequest& request) -> std::unique_ptr<Dataset> {
            const auto& path = request.path;
            const bool all = request.takes_all();
            if (is_pattern(path))
              return all ? open_image_pattern(path.string(), request.class_names) : nullptr;
            auto folder = split_folder(path, request.train);
            if (folder.empty() && all) folder = path;  // class folders alone
            if (folder.empty()) return nullptr;
            if (request.options.kind != "folder") refuse_parts(folder);
            return open_image_folder(folder, request.class_names);
          },
          .lies_beside = holds_class_folders};
}
}  // namespace formats

}  // namespace dimred::data
