-- +goose Up
-- Bodies of packs may have metas from here on (package pack). A version that can't read them is not to open the file.
SELECT 1;
