/**
 * The version of the recipes. Raise it when a recipe generates another Dockerfile for the same source, so that
 * images of older versions of Berth are built again.
 */
export const RECIPE_FORMAT = 1;
