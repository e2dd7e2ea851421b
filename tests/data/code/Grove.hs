{-# LANGUAGE LambdaCase #-}
-- | Trees in a grove.
module Fixture.Grove (Tree (..), height) where

import qualified Data.List as List

-- | A tree and its branches.
data Tree
  = Leaf
  | Branch Tree Tree
  deriving (Show)

newtype Age = Age Int

type Grove = [Tree]

-- | How many branches are on top of each other.
height :: Tree -> Int
height Leaf = 0
height (Branch left right) =
  1 + max (height left) (height right)

class Growing a where
  -- | One year more.
  grow :: a -> a

instance Growing Age where
  grow (Age years) = Age (years + 1)

(<+>) :: Tree -> Tree -> Tree
left <+> right = Branch left right

oldest = List.maximum
