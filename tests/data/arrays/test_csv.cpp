// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/arrays/array_dataset.hpp"
#include "src/data/arrays/csv_text.hpp"
#include "src/data/data_reader.hpp"
#include "src/data/dataset.hpp"
#include "src/files/hdf5_handles.hpp"
#include "tests/data/arrays/array_files.hpp"
#include "tests/data/arrays/opened_arrays.hpp"
#include "tests/data/idx_files.hpp"
#include "tests/data/read_samples.hpp"
#include "tests/support/in_folder.hpp"
#include "tests/support/messages.hpp"

// Tables of CSV: records by RFC 4180, columns, categories, labels and mistakes.

namespace flotilla {
namespace {

using Records = std::vector<std::vector<std::string>>;

Records records_of(const std::string& text, char delimiter = ',') {
  CsvRecords records(text, delimiter, 1);
  Records all;
  for (std::vector<CsvField> fields; records.next(fields);) {
    all.emplace_back();
    for (const CsvField& field : fields) all.back().emplace_back(field.text);
  }
  return all;
}

TEST(CsvText, HasTheFieldsOfRfc4180) {
  EXPECT_EQ(records_of("a,b\r\n1, 2 \n"), (Records{{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(records_of("\"a,\"\"b\"\"\",\"\nc\"\r\n,\n"), (Records{{"a,\"b\"", "\nc"}, {"", ""}}));
  EXPECT_EQ(records_of("\n\r\na\tb\n\n", '\t'), (Records{{"a", "b"}}));
  EXPECT_EQ(records_of("\"x\" ,y\r"), (Records{{"x", "y"}}));
  EXPECT_EQ(test::error_of([] { records_of("a,b\"c\n"); }).find("a quote stands inside"), 0U);
  EXPECT_EQ(test::error_of([] { records_of("\"a\"b,c\n"); }).find("text stands behind"), 0U);
  EXPECT_EQ(test::error_of([] { records_of("\"a,b\n"); }).find("a quote is opened"), 0U);
  EXPECT_EQ(test::error_of([] { records_of("a\rb\n"); }).find("a carriage return"), 0U);
}

TEST(CsvText, CountsLinesInsideOfQuotes) {
  CsvRecords records("a\n\n\"b\nc\"\nd", ',', 7);
  std::vector<CsvField> fields;
  std::vector<std::int64_t> lines;
  while (records.next(fields)) lines.push_back(records.line());
  EXPECT_EQ(lines, (std::vector<std::int64_t>{7, 9, 11}));
}

TEST(CsvText, ReadsNumbersAsCDoes) {
  const auto number = [](const char* text) {
    double value = -1.0;
    return parse_csv_number(text, value) == CsvNumber::good ? value : -99.0;
  };
  EXPECT_EQ(number("+3"), 3.0);
  EXPECT_EQ(number("-.5e1"), -5.0);
  EXPECT_EQ(number("5."), 5.0);
  EXPECT_EQ(number("1e-400"), 0.0);
  for (const char* bad : {"", "+", "+-3", "3,14", "0x10", "1 2", "inf", "nan", "1e400", "1_0"})
    EXPECT_EQ(number(bad), -99.0) << bad;
}

test::Bytes bytes_of_text(const std::string& text) {
  return {text.begin(), text.end()};
}

class CsvFiles : public test::InFolder {
 protected:
  std::unique_ptr<Dataset> open(const std::string& text, std::int64_t classes = 2) {
    return open_files({{"a.csv", text}}, folder.path("a.csv"), classes);
  }
  std::unique_ptr<Dataset> open_files(const std::vector<std::pair<std::string, std::string>>& files,
                                      const std::string& path, std::int64_t classes = 2) {
    for (const auto& [name, content] : files) test::save(folder.path(name), bytes_of_text(content));
    data.kind = DataKind::csv;
    data.train.given = true;
    data.train.path = path;
    return open_dataset(
        data, data.train, classes, 1,
        {.training = true, .targets = data.table.labels_classes ? 0 : std::ssize(data.table.target_columns)});
  }
  std::string refused(const std::string& text) {
    const std::string message = test::error_of([&] { open(text); });
    const std::size_t at = message.find("a.csv");
    return at == message.npos ? message : message.substr(at);
  }
  static std::vector<float> sample(const Dataset& set, std::int64_t i) {
    std::vector<float> values(static_cast<std::size_t>(set.sample_shape().size()));
    set.read(i, 0, values);
    return values;
  }

  void SetUp() override { data.table.target_columns = {"y"}; }
  DataConfig data;
};

using Values = std::vector<float>;

TEST_F(CsvFiles, ReadNumbersCategoriesAndLabels) {
  data.table.categories = {"c"};
  const auto set = open("\xEF\xBB\xBFx,c,y\r\n1.5,red,no\r\n\r\n+2,\"blue\",yes\r\n-3e-1, red ,no\r\n");
  EXPECT_EQ(set->size(), 3);
  EXPECT_EQ(sample(*set, 0), (Values{1.5F, 0, 1}));
  EXPECT_EQ(sample(*set, 1), (Values{2, 1, 0}));
  EXPECT_EQ(sample(*set, 2), (Values{-0.3F, 0, 1}));
  Values room(3);
  EXPECT_EQ(set->read(1, 0, room), 1);
  EXPECT_EQ(set->read(2, 0, room), 0);
}

TEST_F(CsvFiles, TakeColumnsByNameOrNumberInTheOrderOfTheKeys) {
  data.table.header = false;
  data.table.delimiter = "tab";
  data.table.target_columns = {"1"};
  data.table.columns = {"4", "2"};
  const auto set = open("0\t10\tx\t30\n1\t11\ty\t31\n");
  EXPECT_EQ(sample(*set, 1), (Values{31, 11}));
}

TEST_F(CsvFiles, JoinFilesByTheNamesOfTheFirst) {
  const auto set =
      open_files({{"a.csv", "x,z,y\n1,2,0\n"}, {"b.csv", "y,z,x\n1,4,3\n"}}, folder.path("?.csv"));
  EXPECT_EQ(set->size(), 2);
  EXPECT_EQ(sample(*set, 1), (Values{3, 4}));
  const std::string message = test::error_of([&] {
    open_files({{"a.csv", "x,z,y\n1,2,0\n"}, {"b.csv", "y,x\n1,3\n"}}, folder.path("?.csv"));
  });
  EXPECT_NE(message.find("b.csv:1: has no column \"z\""), message.npos) << message;
}

TEST_F(CsvFiles, PredictSeveralNumbers) {
  data.table.labels_classes = false;
  data.table.target_columns = {"y", "z"};
  data.target_mean = {1.0};
  const auto set = open("y,x,z\n1,2,3\n");
  Values targets(2);
  set->read_targets(0, targets);
  EXPECT_EQ(targets, (Values{0, 2}));
}

TEST_F(CsvFiles, FillWhatIsMissing) {
  data.table.categories = {"c"};
  EXPECT_EQ(refused("x,c,y\n1,a,0\n,a,1\n"),
            "a.csv:3: column 1 (\"x\") is missing (\"\"): correct or delete the line, or give "
            "data.fill_missing = \"mean\" or a number");
  data.table.fill_missing = "mean";
  const auto set = open("x,c,y\n1,a,0\nNA,NaN,1\n4,b,1\n");
  EXPECT_EQ(sample(*set, 1), (Values{2.5F, 0, 0}));
  data.table.fill_missing = "-1";
  EXPECT_EQ(sample(*open("x,c,y\n1,a,0\nNA,b,1\n"), 1), (Values{-1, 0, 1}));
  EXPECT_EQ(refused("x,c,y\n1,a,0\n1,a,\n"),
            "a.csv:3: column 3 (\"y\") is missing (\"\"): correct or delete the line");
}

TEST_F(CsvFiles, KeepTheCategoriesAndClassesOfTheTrainingData) {
  data.found = {
      .columns = {"x", "c"}, .categories = {{}, {"a", "b"}}, .fills = {0, 0}, .classes = {"n", "p"}};
  data.table.categories = {"c"};
  const auto set = open("c,y,x\nb,p,1\nz,n,2\n");
  EXPECT_EQ(sample(*set, 0), (Values{1, 0, 1}));
  EXPECT_EQ(sample(*set, 1), (Values{2, 0, 0}));  // "z" is told
  EXPECT_EQ(
      refused("c,y,x\nb,p,1\nb,q,2\n"),
      "a.csv:3: the label \"q\" is none of the 2 classes of the training data (\"n\" to \"p\"): correct "
      "it or leave the sample out");
}

TEST_F(CsvFiles, TellMistakesByFileAndLine) {
  EXPECT_EQ(refused(""), "a.csv: is empty: give a file that holds samples, or leave it out");
  EXPECT_EQ(refused("x,y\n"), "a.csv: holds no sample, only a header or empty lines: leave the file out");
  EXPECT_EQ(refused("x,x,y\n1,2,3\n"),
            "a.csv:1: the header names two columns \"x\", 1 and 2: rename one of them");
  EXPECT_EQ(refused("1.5,2,0\n3,4,1\n"),
            "a.csv:1: the first line holds numbers, not names: set data.header = false");
  EXPECT_EQ(refused("x;y\n1;2\n"),
            "a.csv:1: has no column \"y\" (data.target_columns): it has \"x;y\"; set data.delimiter = \";\"");
  EXPECT_EQ(
      refused("64,high\n65,low\n"),
      "a.csv:1: has no column \"y\" (data.target_columns): it has \"64\", \"high\"; where the first line is "
      "a sample, set data.header = false and name columns by their numbers, from 1 on");
  EXPECT_EQ(
      refused("x,y\na,0\nb,1\n,0\nc,0\n,1\n"),
      "a.csv: 5 mistakes:\n  " + folder.path("a.csv") +
          ":2: column 1 (\"x\") is \"a\", which is no number: name the column in data.categories or "
          "data.ignored_columns, or the text in data.missing_texts (and 2 more like it)\n  " +
          folder.path("a.csv") +
          ":4: column 1 (\"x\") is missing (\"\"): correct or delete the line, or give data.fill_missing = "
          "\"mean\" or a number (and 1 more like it)");
  std::string many = "x,y\n";  // in several pieces
  for (int i = 0; i < 400000; ++i) many += "red,0\n";
  EXPECT_NE(refused(many).find("(and 399999 more like it)"), std::string::npos);
  EXPECT_EQ(
      refused("x,y\n1,0\n2,1,\n"),
      "a.csv:3: has 3 fields, but the first line has 2: take the delimiter at the end of the line away");
  EXPECT_EQ(refused("x,y\n\"3,14\",0\n1,1\n"),
            "a.csv:2: column 1 (\"x\") is \"3,14\", with a decimal comma: "
            "write 3.14");
  EXPECT_EQ(refused("x,y\ninf,0\n1,1\n"),
            "a.csv:2: column 1 (\"x\") is \"inf\", which is no finite number: "
            "correct or delete the line");
  EXPECT_EQ(
      refused(",x,y\n0,1,0\n"),
      "a.csv:1: column 1 has no name (pandas writes its index so): leave it out by data.ignored_columns "
      "= [\"1\"], or name it");
  EXPECT_EQ(refused("x,y\n1,0\nred,1\n\"2,1\n"),
            "a.csv: 2 mistakes:\n  " + folder.path("a.csv") +
                ":3: column 1 (\"x\") is \"red\", which is no number: name the column in data.categories or "
                "data.ignored_columns, or the text in data.missing_texts\n  " +
                folder.path("a.csv") +
                ":4: a quote is opened and not closed: close it, or write a quote inside a field twice");
  EXPECT_NE(
      refused("x,y\n1,a\n1,b\n1,c\n").find("has 3 different labels, \"a\" to \"c\", but model.classes = 2"),
      std::string::npos);
}

TEST_F(CsvFiles, TakeADelimiterBehindTheHeader) {
  const auto set = open("x,y,\n1,0,\n2,1\n");
  EXPECT_EQ(sample(*set, 1), (Values{2}));
}

TEST_F(CsvFiles, HaveTheSameSamplesWithAnyThreadsAndCompressed) {
  // Several pieces of 1 MiB, with line feeds in quotes at their bounds.
  std::string text = "x,c,y\n";
  for (int i = 0; i < 100000; ++i) text += cat(i, i % 7 == 0 ? ",\"w\n" : ",\"w", i % 13, "\",", i % 2, "\n");
  data.table.categories = {"c"};
  const auto alone = open(text);
  data.threads = 3;
  const auto threads = open(text);
  test::save(folder.path("a.csv"), test::gzip(bytes_of_text(text)));
  data.train.path = folder.path("a.csv");
  const auto packed = open_dataset(data, data.train, 2, 1, {});
  EXPECT_EQ(alone->size(), 100000);
  EXPECT_EQ(identity_of(*alone), identity_of(*threads));
  EXPECT_EQ(identity_of(*alone), identity_of(*packed));
  EXPECT_EQ(sample(*packed, 99999)[0], 99999.0F);
}

TEST_F(CsvFiles, SortLabelsThatAreNumbersAsNumbers) {
  EXPECT_EQ(class_words({"10", "9", "2"}, 0, "y"), (std::vector<std::string>{"2", "9", "10"}));
  EXPECT_EQ(class_words({"0", "2"}, 4, "y"), (std::vector<std::string>{"0", "1", "2", "3"}));
  EXPECT_EQ(class_words({"b", "10", "9"}, 0, "y"), (std::vector<std::string>{"10", "9", "b"}));
}

/// An array of texts of 3 letters each, in UTF-32 or in bytes.
test::Bytes npy_of_texts(const std::vector<std::u32string>& texts, bool wide) {
  std::string header = cat("{'descr': '", wide ? "<U3" : "|S3", "', 'fortran_order': False, 'shape': (",
                           texts.size(), ",), }");
  header.resize(117, ' ');
  header += '\n';
  test::Bytes bytes = bytes_of_text(cat("\x93NUMPY", '\1', '\0', '\x76', '\0', header));
  for (std::u32string text : texts) {
    text.resize(3, U'\0');
    for (const char32_t letter : text)
      for (unsigned shift = 0; shift < (wide ? 32U : 8U); shift += 8)
        bytes.push_back(static_cast<std::uint8_t>(letter >> shift));
  }
  return bytes;
}

using TextLabels = test::InFolder;

std::vector<std::int32_t> labels_in(const Dataset& set) {
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < set.size(); ++i) labels.push_back(test::sample_of(set, i).label);
  return labels;
}

TEST_F(TextLabels, AreClassesInTheOrderOfTheTexts) {
  const std::vector<std::u32string> texts = {U"b", U"\u00e4\u20acz", U"a", U"b"};
  test::save(folder.path("images.npy"), test::npy(test::counted("images", {NumberType::Kind::f32}, {4, 2})));
  test::save(folder.path("labels.npy"), npy_of_texts(texts, true));
  const auto set = test::open(test::config(DataKind::numpy), folder.path(""), 0);
  EXPECT_EQ(set->facts().class_words, (std::vector<std::string>{"a", "b", "\u00e4\u20acz"}));
  EXPECT_EQ(set->facts().classes, 3);
  EXPECT_EQ(labels_in(*set), (std::vector<std::int32_t>{1, 2, 0, 1}));

  test::save(folder.path("labels.npy"), npy_of_texts({U"10", U"9", U"9", U"10"}, false));
  EXPECT_EQ(labels_in(*test::open(test::config(DataKind::numpy), folder.path(""), 0)),
            (std::vector<std::int32_t>{1, 0, 0, 1}));
  EXPECT_NE(test::error_of([&] {
              test::open(test::config(DataKind::numpy), folder.path(""), 0, 1);
            }).find("holds texts, which are labels of model.loss = \"softmax\""),
            std::string::npos);
  DataConfig as_inputs = test::config(DataKind::numpy);
  as_inputs.inputs = "labels";
  EXPECT_NE(test::error_of([&] { test::open(as_inputs, folder.path(""), 0); }).find("inputs are numbers"),
            std::string::npos);
}

TEST_F(TextLabels, MayBeStringsOfHdf5) {
  for (const bool variable : {false, true}) {
    test::save_hdf5(folder.path("a.h5"), {test::counted("images", {NumberType::Kind::f32}, {3, 2})});
    const hid_t file = H5Fopen(folder.path("a.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, variable ? H5T_VARIABLE : 4);
    const hsize_t rows = 3;
    const hid_t space = H5Screate_simple(1, &rows, nullptr);
    const hid_t dataset = H5Dcreate2(file, "labels", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const std::array<const char*, 3> strings = {"cat", "ant", "cat"};
    const void* const fixed = "cat\0ant\0cat";
    H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, variable ? strings.data() : fixed);
    H5Dclose(dataset);
    H5Sclose(space);
    H5Tclose(type);
    H5Fclose(file);
    const auto set = test::open(test::config(DataKind::hdf5), folder.path("a.h5"), 2);
    EXPECT_EQ(set->facts().class_words, (std::vector<std::string>{"ant", "cat"})) << variable;
    EXPECT_EQ(labels_in(*set), (std::vector<std::int32_t>{1, 0, 1})) << variable;
  }
}

}  // namespace
}  // namespace flotilla
