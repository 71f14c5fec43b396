/** What the name of a GGUF file tells. Names are all that a listing has: nothing is fetched to know more. */
export interface GgufName {
  /** As the repository lists it, with its folders. */
  readonly name: string;
  /** The same for all parts of a split model, and for no other file. */
  readonly group: string;
  /** Counted from 1; null for a model in one file. */
  readonly part: { readonly index: number; readonly count: number } | null;
  /** In capitals, such as `Q4_K_M` or `UD-Q4_K_XL`; of the folder where the file's name has none. */
  readonly quantization: string | null;
  /**
   * model: can be loaded by itself. draft: can too, but is made to guess for a larger one. companion: goes with
   * a model and is none (projectors of images, importance matrices, adapters, heads, vocabularies).
   */
  readonly role: "model" | "draft" | "companion";
}

/**
 * Every way in which the large publishers write it: `-Q4_K_M`, `.Q4_K_M`, `_q4_k_m`, `-UD-Q4_K_XL`, `.i1-IQ4_XS`,
 * `-bf16`, `-fp16`, `-mxfp4`, `-MXFP4_MOE`, `-TQ1_0`, `-i2_s`, `-Q4_0_4_4`. Bounded, since anybody may have made
 * a name up on which it would go back and forth.
 */
const QUANTIZATION =
  /(?<=^|[-._])(?:UD-)?(?:I?Q\d{1,2}(?:_[A-Z0-9]{1,8}){0,4}|TQ\d+_\d+|I\d_S|BF16|FP?(?:16|32)|(?:MX|NV)FP4(?:_[A-Z0-9]{1,8}){0,4})(?=[-.]|$)/gi;
/** As llama.cpp's own tool splits files; it finds the other parts by exactly these names. */
const PART = /^(.+)-(\d{5})-of-(\d{5})$/;
const GGUF_SUFFIX = /\.gguf$/i;

/** Undefined for what is no GGUF file. */
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
    // Endings too: the library finds the other parts by the first one's name, letter by letter.
    group: part ? `${stem}-of-${count}${name.slice(whole.length)}` : name,
    part,
    quantization:
      own ??
      folders.reduceRight<string | null>((found, one) => found ?? parseQuantization(one), null),
    role: classifyRole(name.toLowerCase(), base.toLowerCase(), own),
  };
}

/** How a person may write it, in the one way in which names are compared. */
export function canonicalQuantization(text: string): string {
  return text.toUpperCase().replace(/^FP(16|32)$/, "F$1");
}

/** The last one: what comes before may be part of the model's name. */
function parseQuantization(text: string): string | null {
  const last = text.match(QUANTIZATION)?.at(-1);
  return last === undefined ? null : canonicalQuantization(last);
}

function classifyRole(name: string, base: string, quantization: string | null): GgufName["role"] {
  if (name.includes("mmproj") || base.startsWith("ggml-vocab")) return "companion";
  // A quantized model may be named after the matrix that it was made with; the matrix itself is not quantized.
  if (base.includes("imatrix") && quantization === null) return "companion";
  if (/^(mtp|eagle3|dflash)-/.test(base)) return "companion";
  if (/(^|[-._])(lora|adapter)([-._]|$)/.test(base)) return "companion";
  return /(^|[-._])draft([-._]|$)/.test(base) ? "draft" : "model";
}
