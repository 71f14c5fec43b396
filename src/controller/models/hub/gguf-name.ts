/**
 * The properties of a model that the name of its GGUF file states. Berth takes them from the name, because a hub's
 * listing of a repository does not contain them, and Berth downloads no file to read them.
 */
export interface GgufName {
  /** The path of the file in its repository. */
  readonly name: string;
  /** A key that is equal for all parts of a split model, and different for all other files. */
  readonly group: string;
  /** The number of the part, counted from 1; null for a model in one file. */
  readonly part: { readonly index: number; readonly count: number } | null;
  /**
   * The quantization in capitals, such as `Q4_K_M` or `UD-Q4_K_XL`; taken from the folder if the file's name has none.
   */
  readonly quantization: string | null;
  /**
   * A `model` can be loaded alone. A `draft` can be loaded, but is meant for speculative decoding with a larger model.
   * A `companion` accompanies a model (image projectors, importance matrices, adapters, heads, vocabularies).
   */
  readonly role: "model" | "draft" | "companion";
}

/**
 * Matches the spellings of the large publishers: `-Q4_K_M`, `.Q4_K_M`, `_q4_k_m`, `-UD-Q4_K_XL`, `.i1-IQ4_XS`,
 * `-bf16`, `-fp16`, `-mxfp4`, `-MXFP4_MOE`, `-TQ1_0`, `-i2_s`, `-Q4_0_4_4`. Bounded, because names from a hub could
 * otherwise cause excessive backtracking.
 */
const QUANTIZATION =
  /(?<=^|[-._])(?:UD-)?(?:I?Q\d{1,2}(?:_[A-Z0-9]{1,8}){0,4}|TQ\d+_\d+|I\d_S|BF16|FP?(?:16|32)|(?:MX|NV)FP4(?:_[A-Z0-9]{1,8}){0,4})(?=[-.]|$)/gi;
/**
 * The names that llama.cpp's own tool gives to the parts of a split file. llama.cpp uses these names to find the parts.
 */
const PART = /^(.+)-(\d{5})-of-(\d{5})$/;
const GGUF_SUFFIX = /\.gguf$/i;

/** Parses the name of a GGUF file; returns undefined for any other name. */
export function parseGgufName(name: string): GgufName | undefined {
  if (!GGUF_SUFFIX.test(name)) return undefined;
  const whole = name.replace(GGUF_SUFFIX, "");
  const [, prefix, index, count] = PART.exec(whole) ?? [];
  const numbers = { index: Number(index), count: Number(count) };
  const part = numbers.index >= 1 && numbers.index <= numbers.count ? numbers : null;
  const stem = part && prefix !== undefined ? prefix : whole;
  const folders = stem.split("/");
  const base = folders.pop() ?? "";
  const own = parseQuantization(base);
  return {
    name,
    // The key of a part includes its suffix, because llama.cpp derives the names of the other parts from the exact
    // letters of the first one.
    group: part ? `${stem}-of-${count}${name.slice(whole.length)}` : name,
    part,
    quantization:
      own ??
      folders.reduceRight<string | null>((found, one) => found ?? parseQuantization(one), null),
    role: classifyRole(name.toLowerCase(), base.toLowerCase(), own),
  };
}

/** Returns the canonical spelling of a quantization, so that two quantizations can be compared. */
export function canonicalQuantization(text: string): string {
  return text.toUpperCase().replace(/^FP(16|32)$/, "F$1");
}

/**
 * Returns the quantization in a name; null if there is none. Uses the last match, because an earlier one may be part of
 * the model's name.
 */
function parseQuantization(text: string): string | null {
  const last = text.match(QUANTIZATION)?.at(-1);
  return last === undefined ? null : canonicalQuantization(last);
}

function classifyRole(name: string, base: string, quantization: string | null): GgufName["role"] {
  if (name.includes("mmproj") || base.startsWith("ggml-vocab")) return "companion";
  // The name of an importance matrix contains no quantization. A name with both `imatrix` and a quantization belongs to
  // a model that was quantized with such a matrix.
  if (base.includes("imatrix") && quantization === null) return "companion";
  if (/^(mtp|eagle3|dflash)-/.test(base)) return "companion";
  if (/(^|[-._])(lora|adapter)([-._]|$)/.test(base)) return "companion";
  return /(^|[-._])draft([-._]|$)/.test(base) ? "draft" : "model";
}
