import { open, readFile } from "node:fs/promises";

const KEY = Buffer.from("tokenizer.chat_template");
/** The offsets of tensors are multiples of this number of bytes from the end of the header, which is aligned too. */
const ALIGNMENT = 32;

/**
 * Copies a model file with another chat template. A comment in the template gives it a length with which everything
 * after it keeps its alignment.
 */
export async function replaceChatTemplate(
  from: string,
  to: string,
  template: string,
): Promise<void> {
  const file = await readFile(from);
  const at = file.indexOf(KEY);
  if (at === -1) throw new Error("the model has no chat template");
  // In the file, the key of the template is followed by the number of its type (4 bytes) and the length of the text (8
  // bytes).
  const lengthAt = at + KEY.length + 4;
  const textAt = lengthAt + 8;
  const oldLength = Number(file.readBigUInt64LE(lengthAt));
  const ownLength = Buffer.byteLength(template) + "{##}".length;
  const fill = (((oldLength - ownLength) % ALIGNMENT) + ALIGNMENT) % ALIGNMENT;
  const text = Buffer.from(`${template}{#${" ".repeat(fill)}#}`);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  const copy = await open(to, "w");
  try {
    for (const part of [
      file.subarray(0, lengthAt),
      length,
      text,
      file.subarray(textAt + oldLength),
    ])
      await copy.write(part);
  } finally {
    await copy.close();
  }
}
