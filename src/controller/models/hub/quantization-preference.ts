/**
 * The order of preference for a spec without a quantization. First Q4_K_M, the default of llama.cpp and of the
 * hub's own snippets; then files of similar size, from better to worse; then larger ones up to Q8_0, which have no
 * noticeable loss; then smaller ones; last unquantized weights, which need two to four times the memory.
 */
const ORDER: readonly string[] = [
  ["Q4_K_M", "UD-Q4_K_XL", "Q4_K_XL", "Q4_K_L", "MXFP4_MOE", "MXFP4", "Q4_K_S", "Q4_K"],
  ["Q4_0", "IQ4_NL", "IQ4_XS", "Q4_1", "Q4", "NVFP4"],
  ["Q5_K_M", "Q5_K_XL", "Q5_K_L", "Q5_K_S", "Q5_K", "Q5_0", "Q5_1", "Q5"],
  ["Q6_K", "Q6_K_XL", "Q6_K_L", "Q6", "Q8_0", "Q8_K_XL", "Q8"],
  ["Q3_K_XL", "Q3_K_L", "Q3_K_M", "IQ3_M", "Q3_K_S", "Q3_K", "IQ3_S", "IQ3_XS", "IQ3_XXS", "Q3"],
  ["F16", "BF16", "F32"],
  ["Q2_K_XL", "Q2_K_L", "Q2_K", "IQ2_M", "Q2_K_S", "IQ2_S", "IQ2_XS", "IQ2_XXS", "Q2"],
  ["TQ2_0", "TQ1_0", "I2_S", "IQ1_M", "IQ1_S"],
].flat();

/**
 * Returns a rank; a smaller rank is better. All unknown quantizations are last. A dynamic quantization (UD-) follows
 * the plain one with the same name.
 */
export function rankQuantization(quantization: string): number {
  const exact = ORDER.indexOf(quantization);
  if (exact >= 0) return exact;
  const plain = ORDER.indexOf(quantization.replace(/^UD-/, ""));
  return plain >= 0 ? plain + 0.5 : ORDER.length;
}
