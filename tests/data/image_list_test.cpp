#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "data/image_files.h"
#include "data/open.h"
#include "support/errors.h"
#include "tests/data/shade_files.h"

namespace dimred::data {
namespace {

using ::testing::HasSubstr;

TEST(ImageList, ReadsPathsWithBlanksAndLabels) {
  const TemporaryFolder folder;
  put(folder / "images/one two.png", image(1));
  put(folder / "images/3.png", image(3));
  put(folder / "label.txt", "\xEF\xBB\xBFone two.png 1\r\n\n  3.png\t0 \n");
  const auto dataset = open_image_list(folder / "label.txt");
  ASSERT_EQ(dataset->size(), 2);
  EXPECT_EQ(dataset->class_names(), numbered_classes(2));
  EXPECT_EQ(label_of(*dataset, 0), 1);
  EXPECT_EQ(shade_of(*dataset, 1), 3);
  put(folder / "labels.txt",
      "\xEF\xBB\xBF"
      "0: cow\r\n1: cat\r\n");
  EXPECT_EQ(open_image_list(folder / "label.txt")->class_names(),
            (std::vector<std::string>{"cow", "cat"}));
  put(folder / "label.txt", "one two.png 1\r\r3.png 0\r");  // as older programs of macOS write it
  EXPECT_EQ(open_image_list(folder / "label.txt")->size(), 2);
  std::filesystem::remove(folder / "labels.txt");
  put(folder / "words.txt", "3.png dog\none two.png cat\n");
  const auto words = open_image_list(folder / "words.txt");
  EXPECT_EQ(words->class_names(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(label_of(*words, 0), 1);
}

TEST(ImageList, ReadsALabelWithBlanksBehindATab) {
  const TemporaryFolder folder;
  put(folder / "one two.png", image(1));
  put(folder / "3.png", image(3));
  put(folder / "train.txt", "one two.png\ttabby cat\r\n3.png \t dog \n3.png\tdog\n");
  const auto dataset = open_dataset({.path = folder.path()}, true);
  EXPECT_EQ(dataset->class_names(), (std::vector<std::string>{"dog", "tabby cat"}));
  EXPECT_EQ(label_of(*dataset, 0), 1);
  EXPECT_EQ(shade_of(*dataset, 1), 3);
  EXPECT_THAT(dataset->description(),
              HasSubstr("list " + (folder / "train.txt").string() + ", 3 images"));
  const auto path = parse_image_list("a\tb.png cat\n", "train.txt");  // as before tabs had a rule
  EXPECT_EQ(path.paths.at(0), "a\tb.png");
}

TEST(ImageList, TakesTheOrderAndTheNamesOfWordsFromLabelsTxt) {
  const TemporaryFolder folder;
  put(folder / "labels.txt", "dog\ncat\n");
  put(folder / "train.txt", "a.png cat\nb.png dog\n");
  const auto train = open_image_list(folder / "train.txt");
  EXPECT_EQ(train->class_names(), (std::vector<std::string>{"dog", "cat"}));
  const auto list =
      parse_image_list("a.png cat\nb.png dog\n", "train.txt", {folder / "labels.txt"});
  EXPECT_EQ(list.labels, (std::vector<std::int32_t>{1, 0}));
  put(folder / "train.txt", "a.png cat\nb.png cow\n");
  EXPECT_THAT(thrown<std::runtime_error>([&] { open_image_list(folder / "train.txt"); }),
              HasSubstr("train.txt:2: needs a class that " + (folder / "labels.txt").string() +
                        " names, received cow"));
  put(folder / "train.txt", "a.png cat\nb.png cat\n");
  EXPECT_THAT(
      thrown<std::invalid_argument>([&] { open_image_list(folder / "train.txt"); }),
      HasSubstr("labels.txt or classes.txt names the label dog, but no image has this label"));
}

TEST(ImageList, TakesTheFileThatNamesAllWords) {
  const TemporaryFolder folder;
  put(folder / "train.txt", "a.png red_cat\nb.png dog\n");
  put(folder / "labels.txt", "Red cat\nDog\n");
  const auto ignored =
      parse_image_list("a.png red_cat\nb.png dog\n", "train.txt", {folder / "labels.txt"});
  EXPECT_EQ(ignored.class_names, (std::vector<std::string>{"dog", "red_cat"}));
  ASSERT_EQ(ignored.remarks.size(), 1);
  EXPECT_THAT(ignored.remarks[0], HasSubstr("labels.txt names none of the classes in this list"));
  put(folder / "classes.txt", "red_cat\ndog\n");
  EXPECT_EQ(open_image_list(folder / "train.txt")->class_names(),
            (std::vector<std::string>{"red_cat", "dog"}));
  put(folder / "classes.txt", "1 001.Red_cat\n2 002.Dog\n");
  EXPECT_EQ(open_image_list(folder / "train.txt")->class_names(),
            (std::vector<std::string>{"dog", "red_cat"}));
}

TEST(ImageList, IsNoFileOfItsOwnNames) {
  const TemporaryFolder folder;
  put(folder / "labels.txt", "a.png cat\nb.png dog\n");
  EXPECT_EQ(open_image_list(folder / "labels.txt")->class_names(),
            (std::vector<std::string>{"cat", "dog"}));
  put(folder / "classes.txt", "a.png 1\nb.png 0\n");
  put(folder / "labels.txt", "dog\ncat\n");
  EXPECT_EQ(open_image_list(folder / "classes.txt")->class_names(),
            (std::vector<std::string>{"dog", "cat"}));
}

TEST(ImageList, SaysThatAnImageHasTwoLabels) {
  const auto remarks = [](const char* text) { return parse_image_list(text, "train.txt").remarks; };
  EXPECT_TRUE(remarks("a.png 0\nb.png 1\na.png 0.0\n").empty());  // taken twice
  EXPECT_EQ(remarks("a.png 0\nb.png 1\nb.png 0\na.png 0\na.png 1\nc.png 0\n"),
            std::vector<std::string>{"train.txt: 2 images have two or more labels; the first is "
                                     "a.png (line 1: 0, line 5: 1)"});
  const TemporaryFolder folder;
  put(folder / "train.txt", "a.png cat\na.png dog\n");
  EXPECT_EQ(open_image_list(folder / "train.txt")->notes().size(), 1U);
}

TEST(ImageList, NamesTheLineThatIsBad) {
  const TemporaryFolder folder;
  const auto text = [&](const std::string& content, const std::vector<std::string>& names = {}) {
    put(folder / "label.txt", content);
    return thrown<std::runtime_error>(
        [&] { open_image_list(folder / "label.txt", names, /*numbers=*/true); });
  };
  EXPECT_THAT(text("a.png 1\nb.png\n"),
              HasSubstr("label.txt:2: needs a line \"path label\", received b.png"));
  EXPECT_THAT(text("a.png 1\r\n\r\nb.png\r\n"), HasSubstr("label.txt:3: needs"));
  EXPECT_THAT(text("a.png 1\nb.png 7\n", {"x", "y"}),
              HasSubstr("label.txt:2: needs one of the 2 classes, received 7"));
  EXPECT_THAT(text("im 9.jpg\n"),
              HasSubstr("label.txt:1: needs a line \"path label\", received im 9.jpg"));
  EXPECT_THAT(text("a.png -1\n"), HasSubstr("label.txt:1: needs a label >= 0, received -1"));
  EXPECT_THAT(text("\n\n"), HasSubstr("needs a line \"path label\" for each image"));
  EXPECT_THAT(text("a.png 1000000\n"), HasSubstr("needs a label < 1000000"));
}

/// As a folder without an image does.
TEST(ImageList, RefusesAClassWithoutAnImage) {
  const TemporaryFolder folder;
  const auto text = [&](const std::string& content, const std::vector<std::string>& names = {}) {
    put(folder / "label.txt", content);
    return thrown<std::invalid_argument>(
        [&] { open_image_list(folder / "label.txt", names, /*numbers=*/true); });
  };
  const auto from_one = text("a.png 1\nb.png 2\n");
  EXPECT_THAT(from_one, HasSubstr("no image has the label 0 (3 classes, labels 1 to 2)"));
  put(folder / "labels.txt", "cow\ncat\ndog\n");
  EXPECT_THAT(text("a.png 0\nb.png 1\n"), HasSubstr("no image has the label 2"));
  EXPECT_EQ(text("a.png 1\n", {"cow", "cat", "dog"}), "no exception");  // a test set
}

TEST(ImageList, SaysWhatIsNoList) {
  const TemporaryFolder folder;
  const auto text = [&](const std::string& content) {
    put(folder / "label.txt", content);
    return failure_of([&] { open_image_list(folder / "label.txt"); });
  };
  EXPECT_THAT(text({'\x78', '\x9c', '\0', 'x'}), HasSubstr("which is compressed with zlib"));
  EXPECT_THAT(text("\xFF\xFE"
                   "a"),
              HasSubstr("received a text in UTF-16"));
  EXPECT_THAT(text(std::string("a\0b 1\n", 6)), HasSubstr("received 6 bytes of other data"));
}

/// As pandas, numpy.savetxt, spreadsheets and Python's repr write whole numbers. Twelve of them: as
/// words they would be sorted 0, 1, 10, 11, 2, ...
TEST(ImageList, ReadsNumbersInEverySpelling) {
  const std::vector<std::pair<std::string, std::string>> spellings{{"", ".0"},
                                                                   {"+", ""},
                                                                   {"\"", "\""},
                                                                   {"", "e0"},
                                                                   {"0", ".0"},
                                                                   {"", ".000000000000000000e+00"},
                                                                   {"", ","},
                                                                   {"[", ".]"},
                                                                   {"'+0", "'"},
                                                                   {"{", "}"},
                                                                   {"`", "`"},
                                                                   {"b'", "'"},
                                                                   {"u\"", ".0\""},
                                                                   {"\u201C", "\u201D"},
                                                                   {"\u2018", ".0\u2019"},
                                                                   {"\u00AB", "\u00BB"},
                                                                   {"\uFF08", "\uFF09"},
                                                                   {"", "\u00A0"},
                                                                   {"", " \u00A0\u3000"},
                                                                   {"\u2009", "\u202F"},
                                                                   {"\uFEFF", ""},
                                                                   {"\u200F", "\u200B"},
                                                                   {"\u00A0\"", "\"\u00A0"}};
  for (const auto& [before, after] : spellings) {
    std::string lines;
    for (int i = 0; i < 12; ++i) lines += formatted("i.png {}{}{}\n", before, i, after);
    const auto list = parse_image_list(lines, "train.txt");
    EXPECT_EQ(list.class_names, numbered_classes(12)) << before << 2 << after;
    for (std::int32_t i = 0; i < 12; ++i) EXPECT_EQ(list.labels.at(static_cast<std::size_t>(i)), i);
  }
  const auto hexadecimal = parse_image_list("i.png 0x1\ni.png 0x0\n", "train.txt");
  EXPECT_EQ(hexadecimal.labels, (std::vector<std::int32_t>{1, 0}));
}

/// Twelve of them, which would be sorted 0, 1, 10, 11, 2, ... as words.
TEST(ImageList, RefusesNumbersInTheSpellingOfAProgram) {
  const auto text = [](const std::string& lines) {
    return thrown<std::runtime_error>([&] { parse_image_list(lines, "train.txt"); });
  };
  const std::string rule =
      "needs a plain number (2, 2.0 or \"2\") or a name as label, not a number in another "
      "notation, received ";
  const std::vector<std::pair<std::string, std::string>> spellings{{"np.int64(", ")"},
                                                                   {"np.float32(", ".0)"},
                                                                   {"numpy.uint8(", ")"},
                                                                   {"tensor(", ")"},
                                                                   {"tensor(", ".)"},
                                                                   {"torch.tensor([", "])"},
                                                                   {"\"array(", ")\""},
                                                                   {"Decimal('", "')"},
                                                                   {"int(", "),"},
                                                                   {"np.str_('", "')"},
                                                                   {"", "L"},
                                                                   {"", "f"},
                                                                   {"", ".0f"},
                                                                   {"0x", "L"},
                                                                   {"", "ull"},
                                                                   {"#", ""},
                                                                   {"\u2116", ""},
                                                                   {"<", ">"},
                                                                   {"", "%"}};
  for (const auto& [before, after] : spellings) {
    std::string lines;
    for (int i = 0; i < 12; ++i) lines += formatted("i.png {}{}{}\n", before, i, after);
    EXPECT_THAT(text(lines), HasSubstr("train.txt:1: " + rule));
    EXPECT_THAT(text(lines + "i.png cat\n"), HasSubstr("train.txt:1: " + rule)) << lines;
  }
  for (const auto* label : {"np.int64(2)", "tensor(2.)", "0b10", "0B1", "0o7", "\"0b10\""})
    EXPECT_THAT(text(formatted("i.png cat\ni.png dog\ni.png {}\n", label)),
                HasSubstr("train.txt:3: " + rule))
        << label;
  EXPECT_THAT(text("i.png 0\ni.png np.int64(1)\n"),
              HasSubstr("train.txt:2: needs a number as label, as in line 1 (0)"));
}

TEST(ImageList, TakesNamesWithNumbersInThem) {
  const std::vector<std::vector<std::string>> lists{{"2L", "2cv", "3D", "dog"},
                                                    {"10D", "2D", "3D"},
                                                    {"10kg", "5kg"},
                                                    {"10x", "40x"},
                                                    {"10-19", "20-29", "60+"},
                                                    {"<10", ">10"},
                                                    {"class10", "class2"},
                                                    {"cat(1)", "cat(2)"},
                                                    {"1.0.0", "1.0.1"},
                                                    {"2024-01-02", "2024-01-10"},
                                                    {"f(x)", "int", "tensor", "tensor()"},
                                                    {"0bject", "0o"},
                                                    {"#cat", "#dog"}};
  for (const auto& names : lists) {
    std::string lines;
    for (const auto& name : names) lines += formatted("i.png {}\n", name);
    EXPECT_EQ(parse_image_list(lines, "train.txt").class_names, names) << lines;
  }
  // Folders of a training set may have such names.
  const std::vector<std::string> known{"10L", "2L"};
  EXPECT_EQ(parse_image_list("i.png 2L\n", "test.txt", {}, known).labels,
            std::vector<std::int32_t>{1});
}

TEST(ImageList, RefusesNumbersThatAreNoLabels) {
  const auto text = [](const std::string& label) {
    return thrown<std::runtime_error>([&] { parse_image_list("i.png " + label, "train.txt"); });
  };
  for (const auto* label :
       {"2.5", "2,0", "1,000", "0.5e0", "[2.5]", "1e-400", "12.5E-9999", "\"1e-5000\""})
    EXPECT_THAT(
        text(label),
        HasSubstr(
            "train.txt:1: needs a whole number as label, or a name with a letter, received "));
  for (const auto* label : {"1e6", "1e400", "99999999999999999999", "2e+5000"})
    EXPECT_THAT(text(label), HasSubstr("needs a label < 1000000"));
  EXPECT_THAT(text("-2.0"), HasSubstr("needs a label >= 0, received -2.0"));
  for (const auto* name : {"inf", "nan", "1.2.3", "n02", "2nd", "\"", "10-20", "e5"})
    EXPECT_EQ(parse_image_list(std::string("i.png ") + name, "train.txt").class_names,
              std::vector<std::string>{name});
}

/// They would be sorted as words are: 0, 1, 10, 11, 2, ...
TEST(ImageList, RefusesDigitsOfOtherScripts) {
  const auto list = [](const std::string& label, const std::vector<std::string>& names = {}) {
    return parse_image_list("i.png " + label, "train.txt", {}, names);
  };
  for (const auto* label :
       {"\uFF12", "1\uFF10", "\u0662", "-\u0967", "\uFF11.0", "\u00B2", "\u2460", "\u00BD"})
    EXPECT_THAT(
        thrown<std::runtime_error>([&] { list(label); }),
        HasSubstr("train.txt:1: needs numbers in the digits 0 to 9, or names with a letter"))
        << label;
  for (const auto* name : {"n\uFF12", "\u4E8C", "\u00E9"})
    EXPECT_EQ(list(name).class_names, std::vector<std::string>{name});
  EXPECT_EQ(list("\uFF12", {"\uFF11", "\uFF12"}).labels, std::vector<std::int32_t>{1});
}

TEST(ImageList, RefusesTwoFilesOfNamesThatDiffer) {
  const TemporaryFolder folder;
  put(folder / "train.txt", "a.png 0\nb.png 1\n");
  put(folder / "labels.txt", "cow\ncat\n");
  const auto with = [&](const std::string& classes) {
    put(folder / "classes.txt", classes);
    return thrown<std::invalid_argument>([&] { open_image_list(folder / "train.txt"); });
  };
  EXPECT_EQ(with("0: cow\n1: cat\n"), "no exception");
  const auto text = with("cat\ncow\n");
  EXPECT_THAT(text, HasSubstr("labels.txt and "));
  EXPECT_THAT(text,
              HasSubstr("classes.txt name different classes: label 0 is cow in the first file and "
                        "cat in the second"));
  EXPECT_THAT(with("cow\n"),
              HasSubstr("label 1 is cat in the first file and missing in the second"));
  EXPECT_THAT(with("cow\ncat\ndog\n"),
              HasSubstr("label 2 is missing in the first file and dog in the second"));
}

/// A training set of folders may have such names.
TEST(ImageList, TakesANameThatLooksLikeANumberWhereItIsAClass) {
  const std::vector<std::string> versions{"10.0", "2.0"};
  const auto list = parse_image_list("i.png 2.0\ni.png 10.0\n", "test.txt", {}, versions);
  EXPECT_EQ(list.labels, (std::vector<std::int32_t>{1, 0}));
  EXPECT_THAT(thrown<std::runtime_error>(
                  [&] { parse_image_list("i.png 3.0\n", "test.txt", {}, versions); }),
              HasSubstr("needs a name as label, as in the training set"));
}

/// Twelve classes: as words they would be sorted 0, 1, 10, 11, 2, ...
TEST(ImageList, NeedsLabelsOfOneKind) {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 12; ++i) lines += "i.png " + std::to_string(i) + '\n';
  const auto text = [&](const std::string& more) {
    put(folder / "train.txt", lines + more);
    return thrown<std::runtime_error>([&] { open_image_list(folder / "train.txt"); });
  };
  EXPECT_THAT(text("i.png 5x\n"),
              HasSubstr("train.txt:13: needs a number as label, as in line 1 (0), received 5x"));
  lines = "i.png cat\n";
  EXPECT_THAT(text("i.png 7\n"),
              HasSubstr("train.txt:2: needs a name as label, as in line 1 (cat), received 7"));
}

TEST(ImageList, TestListsNeedTheTrainingListsKind) {
  const TemporaryFolder folder;
  put(folder / "a.png", image(1));
  put(folder / "train.txt", "a.png cat\nb.png dog\n");
  put(folder / "test.txt", "a.png 1\n");
  DatasetOptions options{.path = folder.path()};
  const auto names = open_dataset(options, true)->class_names();
  const auto number = thrown<std::runtime_error>([&] { open_dataset(options, false, names); });
  EXPECT_THAT(number,
              HasSubstr("test.txt:1: needs a name as label, as in the training set (cat is label "
                        "0), received 1"));
  put(folder / "test.txt", "a.png dog\n");
  EXPECT_EQ(label_of(*open_dataset(options, false, names), 0), 1);
  put(folder / "train.txt", "a.png 0\nb.png 1\n");
  put(folder / "labels.txt", "cat\ndog\n");
  const auto word = thrown<std::runtime_error>([&] { open_dataset(options, false, names); });
  EXPECT_THAT(word, HasSubstr("needs a number as label, as in the training set"));
  put(folder / "test.txt", "a.png 1\n");
  EXPECT_EQ(label_of(*open_dataset(options, false, names), 0), 1);
}

TEST(ImageList, TestSetsOwnNamesMustBeTheTrainingSets) {
  const TemporaryFolder folder;
  put(folder / "train/label.txt", "a.png 0\nb.png 1\n");
  put(folder / "train/labels.txt", "0: cat\n1: dog\n");
  put(folder / "test/label.txt", "a.png 0\n");
  const DatasetOptions options{.path = folder.path()};
  const auto names = open_dataset(options, true)->class_names();
  EXPECT_EQ(open_dataset(options, false, names)->class_names(), names);
  put(folder / "test/labels.txt", "cat\ndog\n");
  EXPECT_EQ(open_dataset(options, false, names)->class_names(), names);
  put(folder / "test/labels.txt", "dog\ncat\n");
  const auto text = thrown<std::invalid_argument>([&] { open_dataset(options, false, names); });
  EXPECT_THAT(text, HasSubstr("label 0 is cat in the training set and dog in this file"));
}

TEST(ImageList, NamesFilesMustBeSound) {
  const TemporaryFolder folder;
  put(folder / "label.txt", "a.png 0\n");
  const auto text = [&](const std::string& content) {
    put(folder / "classes.txt", content);
    return thrown<std::runtime_error>([&] { open_image_list(folder / "label.txt"); });
  };
  EXPECT_THAT(text("cat\ncat\n"), HasSubstr("classes.txt:2: needs a different name"));
  EXPECT_THAT(text("1: cat\n"),
              HasSubstr("classes.txt:1: needs the line \"0:NAME\", received 1: cat"));
  EXPECT_THAT(text("c\xFF\n"), HasSubstr("needs class names in UTF-8"));
}

TEST(ImageList, FindsTheFolderByAnyFileThatIsThere) {
  const TemporaryFolder folder;
  put(folder / "images/2.png", image(2));
  put(folder / "label.txt", "1.png 0\n2.png 1\n");
  const auto dataset = open_image_list(folder / "label.txt");
  EXPECT_EQ(shade_of(*dataset, 1), 2);
  EXPECT_THAT(thrown<std::runtime_error>([&] { shade_of(*dataset, 0); }),
              HasSubstr("images/1.png: No such"));
  put(folder / "2.png", image(3));
  EXPECT_EQ(shade_of(*open_image_list(folder / "label.txt"), 1), 3);
}

}  // namespace
}  // namespace dimred::data
