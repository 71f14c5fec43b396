/**
 * What is wrong with a model's file, as an end of the sentence "the file is no usable model: ...".
 * Becomes an AssistantError where it is known which model was meant.
 */
export class GgufError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "Damage";
  }
}
