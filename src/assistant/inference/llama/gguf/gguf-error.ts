/**
 * Thrown for a problem of a model's file. The message continues the sentence "the file of model X cannot be used: ...";
 * `inspectModel`, which knows the model's id, turns it into an AssistantError.
 */
export class GgufError extends Error {
  constructor(message: string) {
    super(message);
    this.name = new.target.name;
  }
}
