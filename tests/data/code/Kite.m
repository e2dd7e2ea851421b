// Kites on a line.
#import <Foundation/Foundation.h>

@protocol Flying <NSObject>
- (void)rise:(double)metres;
@end

typedef NS_ENUM(NSInteger, Wind) {
  Calm,
  Storm,
};

/// A kite of paper.
@interface Kite : NSObject <Flying>
@property (nonatomic) double height;
@end

@implementation Kite

/// Lets out line.
- (void)rise:(double)metres above:(double)ground {
  self.height = ground + metres;
}

+ (instancetype)kite { return [self new]; }

@end

static double knots(double speed) { return speed * 1.94; }
