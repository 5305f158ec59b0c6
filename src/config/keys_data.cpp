// SPDX-License-Identifier: Apache-2.0
#include "src/config/key_table.hpp"

namespace flotilla::config {

std::vector<Key> model_and_data_keys() {
  const Condition mlp = {"model.kind", {"mlp"}};
  const Condition resnet = {"model.kind", {"resnet"}};
  const Condition layers = {"model.kind", {"layers"}};
  const Condition resnet_or_layers = {"model.kind", {"resnet", "layers"}};
  const Condition ctr_dnn = {"model.kind", {"ctr-dnn"}};
  const Condition mlp_or_ctr_dnn = {"model.kind", {"mlp", "ctr-dnn"}};
  return {
      {.path = "model.kind",
       .field = field<&Config::model, &ModelConfig::kind>(),
       .rule = one_of({"mlp", "resnet", "layers", "ctr-dnn"}),
       .help =
           "\"mlp\": fully connected layers; \"resnet\": a residual network for images of three channels; "
           "\"layers\": the layers that the deck lists; "
           "\"ctr-dnn\": embeddings of ids and fully connected layers, which predict clicks. "
           "The inputs' size comes from the data",
       .on_resume = must_match},
      {.path = "model.widths",
       .field = field<&Config::model, &ModelConfig::widths>(),
       .rule = array_of(0, 1024, positive(16777216)),
       .help = "Sizes of the hidden layers; []: none",
       .on_resume = must_match,
       .condition = mlp_or_ctr_dnn,
       .presence = Necessity::required,
       .default_text = "for \"ctr-dnn\" [400, 400, 400]"},
      {.path = "model.activation",
       .field = field<&Config::model, &ModelConfig::activation>(),
       // All but "identity", which would make one linear layer of them all
       .rule = one_of({words_of<Activation>().begin() + 1, words_of<Activation>().end()}),
       .help = "After each hidden layer",
       .on_resume = must_match,
       .condition = mlp_or_ctr_dnn,
       .default_text = "\"tanh\", for \"ctr-dnn\" \"relu\""},
      {.path = "model.layers",
       .field = field<&Config::model, &ModelConfig::layers>(),
       .rule = array_of(1, 1024, {}),
       .help = "One text for each layer, from the inputs to the classes: [\"conv 32 3\", \"batch_norm\", "
               "\"relu\", "
               "\"max_pool 2\", \"linear 10\"]. docs/layers.md lists them",
       .on_resume = must_match,
       .condition = layers,
       .presence = Necessity::required},
      {.path = "model.embedding_width",
       .field = field<&Config::model, &ModelConfig::embedding_width>(),
       .rule = at_least(1, 65536),
       .help = "Values of a row of the sparse table",
       .on_resume = must_match,
       .condition = ctr_dnn},
      {.path = "model.embeddings",
       .field = field<&Config::model, &ModelConfig::embeddings>(),
       .help = "\"shared\": one row for an id, whatever its slot; \"per-slot\": one for each slot",
       .on_resume = must_match,
       .condition = ctr_dnn},
      {.path = "model.embedding_scale",
       .field = field<&Config::model, &ModelConfig::embedding_scale>(),
       .rule = at_least(0),
       .help = "Bound of the initial values of rows, which are uniform; the weights of the layers are normal "
               "with deviation 1 / √inputs",
       .on_resume = must_match,
       .condition = ctr_dnn},
      {.path = "model.depth",
       .field = field<&Config::model, &ModelConfig::depth>(),
       .rule = one_of_numbers({18, 34, 50, 101, 152}),
       .help = "Layers with weights",
       .on_resume = must_match,
       .condition = resnet},
      {.path = "model.batch_norm",
       .field = field<&Config::model, &ModelConfig::batch_norm>(),
       .help = "Mean and variance of each worker's batch, or of all workers' batches together",
       .on_resume = must_match,
       .condition = resnet_or_layers},
      {.path = "model.batch_norm_group",
       .field = field<&Config::model, &ModelConfig::batch_norm_group>(),
       .rule = at_least(0, most_count),
       .help =
           "Workers, neighbours in rank, whose batches are normalised together; 0: all of them. A divisor "
           "of the number of workers",
       .on_resume = must_match,
       .condition = {"model.batch_norm", {"synchronised"}}},
      {.path = "model.recompute",
       .field = field<&Config::model, &ModelConfig::recompute>(),
       .help = "Layers that keep their output only and are computed again in the backward pass, to the same "
               "bits: "
               "\"blocks\" (all of them), \"conv1\", \"layer1\" (its blocks), or one as \"layer1.0\"",
       .on_resume = of_machine,
       .condition = resnet},
      {.path = "model.dropout",
       .field = field<&Config::model, &ModelConfig::dropout>(),
       .rule = fraction(),
       .help =
           "Share of values dropped in training: after each hidden layer of an mlp or ctr-dnn, before the "
           "last layer of a resnet",
       .on_resume = on_request,
       .condition = {"model.kind", {"mlp", "resnet", "ctr-dnn"}}},
      {.path = "model.loss",
       .field = field<&Config::model, &ModelConfig::loss>(),
       .help =
           "\"softmax\": cross entropy of classes; of numbers, as PyTorch's mean over outputs and samples: "
           "\"mse\" squared errors, \"mae\" absolute ones, \"huber\" (model.huber_delta), \"binary\" cross "
           "entropy of labels that are 0 or 1, each by itself (docs/regression.md)",
       .on_resume = must_match,
       .condition = {"model.kind", {"mlp", "resnet", "layers"}}},
      {.path = "model.classes",
       .field = field<&Config::model, &ModelConfig::classes>(),
       .rule = at_least(2, 16777216),
       .help = "Outputs; labels are 0 … classes − 1",
       .on_resume = must_match,
       .condition = {"model.loss", {"softmax"}},
       .presence = Necessity::required},
      {.path = "model.outputs",
       .field = field<&Config::model, &ModelConfig::outputs>(),
       .rule = at_least(1, 16777216),
       .help = "Numbers, or labels that are 0 or 1, that are predicted for a sample",
       .on_resume = must_match,
       .condition = {"model.loss", {"mse", "mae", "huber", "binary"}},
       .presence = Necessity::required},
      {.path = "model.huber_delta",
       .field = field<&Config::model, &ModelConfig::huber_delta>(),
       .rule = positive(),
       .help = "Errors up to it count by their squares, larger ones linearly; in units of the scaled targets",
       .on_resume = must_match,
       .condition = {"model.loss", {"huber"}}},
      {.path = "model.initializer",
       .field = field<&Config::model, &ModelConfig::initializer>(),
       .help = "Distribution of the initial weights; biases start at 0",
       .on_resume = must_match,
       .condition = {"model.kind", {"mlp", "layers"}}},
      {.path = "model.initializer_scale",
       .field = field<&Config::model, &ModelConfig::initializer_scale>(),
       .rule = positive(),
       .help = "Bound of \"uniform\", standard deviation of \"normal\"",
       .on_resume = must_match,
       .condition = {"model.initializer", {"uniform", "normal"}},
       .presence = Necessity::required},
      {.path = "model.initial_weights",
       .field = field<&Config::model, &ModelConfig::initial_weights>(),
       .help = "Weights to start from, as far as names and shapes agree: a run's folder (its newest good "
               "checkpoint), a checkpoint, an exported model; empty: none",
       .on_resume = on_request,
       .path_role = PathRole::input},
      {.path = "model.fixed_statistics",
       .field = field<&Config::model, &ModelConfig::fixed_statistics>(),
       .help =
           "Batch norms, by names or patterns (\"*\": all), that normalise with their running statistics in "
           "training too and leave them as they are, as torch's eval() does",
       .on_resume = must_match},
      {.path = "model.weight_names",
       .field = field<&Config::model, &ModelConfig::weight_names>(),
       .help =
           "How model.initial_weights finds its tensors: \"same\": by their names; \"order\": the first "
           "of the file is the model's first and so on, parameters and statistics each, whatever they are "
           "called; in both where their shapes agree",
       .on_resume = OnResume::may_change},
      {.path = "data.kind",
       .field = field<&Config::data, &DataConfig::kind>(),
       .help =
           "\"idx\": files of images and labels as MNIST has them, plain or .gz; \"image-list\": JPEG and "
           "PNG files named in a list; \"image-folder\": a folder of them per class; \"webdataset\": tar "
           "files of "
           "them, as `flotilla pack` and Python's webdataset write them; \"criteo\": lines of a label, 13 "
           "numbers and 26 categories; \"libsvm\": lines of a label and index:value pairs; "
           "\"hdf5\", \"numpy\": arrays of samples and of labels or targets; \"cifar\": binary files of "
           "CIFAR-10 and CIFAR-100; \"random\": made up",
       .on_resume = must_match},
      {.path = "data.shape",
       .field = field<&Config::data, &DataConfig::shape>(),
       .rule = array_of(1, 3, positive(16777216)),
       .help = "Shape of a sample, one to three sizes",
       .on_resume = must_match,
       .condition = data_is("random"),
       .presence = Necessity::required},
      {.path = "data.mean",
       .field = field<&Config::data, &DataConfig::mean>(),
       .help = "The network sees (pixel / 255 − mean) / std; of arrays those of uint8, others refuse it",
       .on_resume = on_request,
       .condition = {"data.kind", {"idx", "hdf5", "numpy"}},
       .presence = Necessity::optional,  // written, it would be refused beside other arrays
       .default_text = "0.5"},
      {.path = "data.std",
       .field = field<&Config::data, &DataConfig::std>(),
       .rule = positive(),
       .help = "See data.mean",
       .on_resume = on_request,
       .condition = {"data.kind", {"idx", "hdf5", "numpy"}},
       .presence = Necessity::optional,
       .default_text = "0.5"},
      {.path = "data.class_names",
       .field = field<&Config::data, &DataConfig::class_names>(),
       .help =
           "File of the names of the classes, one a line from class 0 on, which checkpoints keep for "
           "`flotilla predict`; empty: the class folders of \"image-folder\", classes.txt beside the list of "
           "\"image-list\" or the shards of \"webdataset\" if it is there, the names that come with "
           "\"cifar\", else numbers",
       .on_resume = of_machine,
       .path_role = PathRole::input},
      {.path = "data.stage_to",
       .field = field<&Config::data, &DataConfig::stage_to>(),
       .help =
           "Folder on a disk of each host, as \"/local/scratch\", that the data are copied to, once on each "
           "host, before `flotilla train` reads them there; what is there and unchanged is not copied "
           "again; empty: they are read where they are",
       .on_resume = of_machine,
       .condition = {"data.kind",
                     {"idx", "image-list", "image-folder", "webdataset", "hdf5", "numpy", "cifar", "criteo",
                      "libsvm"}},
       .path_role = PathRole::output},
      {.path = "data.threads",
       .field = field<&Config::data, &DataConfig::threads>(),
       .rule = at_least(1, 1024),
       .help = "Threads of a rank that read ahead",
       .on_resume = of_machine},
      {.path = "data.prefetch",
       .field = field<&Config::data, &DataConfig::prefetch>(),
       .rule = at_least(1, 65536),
       .help = "Batches read ahead",
       .on_resume = of_machine},
      {.path = "data.last_batch",
       .field = field<&Config::data, &DataConfig::last_batch>(),
       .help =
           "A last batch that is not full: \"wrap\" fills it from the start of the epoch's order, \"drop\" "
           "leaves it out",
       .on_resume = must_match},
      {.path = "data.order",
       .field = field<&Config::data, &DataConfig::order>(),
       .help = "\"shuffled\": each epoch in another order; \"blocks\": blocks of neighbours in another "
               "order, and in "
               "it the samples of data.shuffle_buffer neighbours, the same for any number of workers; "
               "\"file\": as the "
               "data lie, which reads large files from their start to their end. If it is left out, "
               "data.kind = \"criteo\" "
               "takes \"file\"",
       .on_resume = must_match},
      {.path = "data.shuffle_block",
       .field = field<&Config::data, &DataConfig::shuffle_block>(),
       .rule = at_least(1, most_count),
       .help = "Neighbouring samples that are read together: those of a chunk, or some hundred kilobytes",
       .on_resume = must_match,
       .condition = {"data.order", {"blocks"}}},
      {.path = "data.shuffle_buffer",
       .field = field<&Config::data, &DataConfig::shuffle_buffer>(),
       .rule = at_least(1, most_count),
       .help = "Samples that are shuffled with each other, a multiple of shuffle_block; what they take is to "
               "fit the "
               "memory (chunks: data.cache_mb)",
       .on_resume = must_match,
       .condition = {"data.order", {"blocks"}}},
  };
}

}  // namespace flotilla::config
